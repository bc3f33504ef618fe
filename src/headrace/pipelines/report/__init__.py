"""A page about streams and their groups.

measures    what Spark counts in the entries: rates, sizes, fields
groups      what the server tells about the consumers that read them: lag, latency, redeliveries
shapes      plots, as SVG and HTML
page        all of it as one page
report      the job
"""
