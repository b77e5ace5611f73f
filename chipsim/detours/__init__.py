"""Routes around broken links: permitted turns that cannot deadlock, and a route for every pair.

`chipsim.detours.turns` chooses the turns, `chipsim.detours.search` finds the routes, and
`chipsim.detours.tables` stores them.
"""
