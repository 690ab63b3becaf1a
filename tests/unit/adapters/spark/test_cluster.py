"""What a start that failed means."""

from perago.adapters.spark.cluster import explain_refusal

STOPPED = "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."


def test_a_cluster_that_does_not_answer_is_named() -> None:
    explained = explain_refusal("spark://host:7077", STOPPED)
    assert explained.startswith("the cluster spark://host:7077 did not answer, or turned it down")
    assert STOPPED in explained


def test_other_words_of_sparks_are_kept() -> None:
    assert explain_refusal("local[x]", "Could not parse Master URL") == "Could not parse Master URL"
