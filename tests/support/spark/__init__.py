"""What tests share about Spark sessions, jobs and kills."""
