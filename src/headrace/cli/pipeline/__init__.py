"""`headrace pipeline …`: jobs on Spark, from the command line."""
