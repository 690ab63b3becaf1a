"""The demo: a year of flights out of New York, from raw files to a report. See README.md."""
