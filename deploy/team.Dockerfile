# A team's own tasks on top of the worker's image. Never built by Perago's tests, only linted.
#
#   docker build -f deploy/team.Dockerfile -t word-count-worker:1.0.0 examples/word_count
#
# Build on perago-worker-spark where a task uses Spark.

FROM perago-worker:local
# What the tasks import, from a lock of your own that agrees with Perago's (requirements/worker.txt):
#   USER root
#   COPY requirements.txt /build/
#   RUN pip install --no-cache-dir --require-hashes -r /build/requirements.txt
#   USER 10001:10001
# Owned by root: a task's body cannot change the code of the next one.
COPY word_count.py /app/
CMD ["start", "word_count.py"]
