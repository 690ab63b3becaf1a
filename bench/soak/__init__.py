"""A worker on a real Conductor server for a long while: does it stay as it was?

`make soak` runs `perago start -j 2` under a steady mix of tasks: most without a workspace, some
that write, some that fail, and now and then one that kills its executor. Memory, file descriptors
and threads of the supervisor and of its executors are sampled; a trend that grows is a failure.
"""
