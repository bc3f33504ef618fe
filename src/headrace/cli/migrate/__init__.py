"""`headrace migrate`: from one server to another while clients write."""
