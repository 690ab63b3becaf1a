"""The flights pipeline: six steps on one workspace, five of which write."""

from examples.flights.clean import CleanParams, clean
from examples.flights.features import FeaturesParams, features
from examples.flights.ingest import IngestParams, ingest
from examples.flights.join import JoinParams, join
from examples.flights.quality import QualityParams, quality
from examples.flights.report import ReportParams, report
from perago import Pipeline


class FlightsParams(
    IngestParams, CleanParams, JoinParams, FeaturesParams, QualityParams, ReportParams
):
    """All that a run can choose; by default a whole year of flights."""


pipeline = Pipeline(
    "flights",
    1,
    steps=[ingest, clean, join, features, quality, report],
    params=FlightsParams,
    description="From raw files to a report on what delays flights out of New York.",
)
