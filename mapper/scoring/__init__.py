"""What a mapping costs while it is made."""
