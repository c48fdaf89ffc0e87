"""The fault benchmark: labelled runs diagnosed, scored against their labels and against baselines. See
../faultbench."""
