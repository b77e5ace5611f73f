"""What is to be mapped: network files opened, other files and objects imported, neurons split."""
