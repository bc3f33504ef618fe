"""Who may do what: users, their rules, logins, and what was refused."""
