"""`headrace group`: consumer groups, looked at and set right."""
