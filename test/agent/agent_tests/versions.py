"""Layouts and functions of CUPTI from 11.8 to 13.3."""

import os

from .harness import check_workload, test, want


def check_version(place, version, **more):
    environment = place.recorded(SIMCUPTI_VERSION=version, **more)
    check_workload(place, "loop 0 0.3", environment, cupti=version, kernel=lambda s: s["kernels"],
                   copy=lambda s: s["copies"], sync=lambda s: s["syncs"])


@test
def versions(place):
    for version in (18, 22, 24, 26, 27, 28, 130000, 130001, 130300):
        check_version(place, version)
        os.remove(place.path("a.cprt"))


@test
def old_library(place):
    # Only what CUPTI of 11.8 has is in the library, and the driver is of 11.8.
    environment = place.recorded(SIMCUDA_DRIVER=11080)
    check_workload(place, "driver 500", environment, cupti=18, kernel=500, call=501)
    os.remove(place.path("a.cprt"))
    # Here the chatty calls are left out by the agent, which counts them.
    _, c = check_workload(place, "chatty 700", environment, call=0, cupti=18)
    want("left out", c["unwanted"], 700)
