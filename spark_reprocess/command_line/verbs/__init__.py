"""The verbs of the job, a module each."""
