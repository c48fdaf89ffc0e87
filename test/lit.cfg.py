"""The test suite: lit tests on real command lines, and the unit tests."""

import glob
import os
import shutil
import subprocess
import sys

import lit.formats

config.name = "culprit"
config.suffixes = [".test"]
config.excludes = ["Inputs"]
config.test_format = lit.formats.ShTest(execute_external=False)
config.test_source_root = os.path.join(config.culprit_source, "test")
config.test_exec_root = os.path.join(config.culprit_build, "test-output")

binary = os.path.join(config.culprit_build, "bin", "culprit")
shared = os.path.join(os.path.dirname(config.culprit_source), "shared")

# Output must not depend on who runs it, where or when.
config.environment["TZ"] = "UTC"
config.environment["LC_ALL"] = "C"
config.environment["NO_COLOR"] = "1"
config.environment["COLUMNS"] = "100"
config.environment["CULPRIT_FAKE_VERSION"] = "0.0.0"
config.environment["HOME"] = config.test_exec_root

config.substitutions += [
    ("%culprit", binary),
    ("%cases", os.path.join(config.culprit_source, "test", "cases")),
    ("%source", config.culprit_source),
    ("%shared", shared),
    ("%unit", os.path.join(config.culprit_build, "unit")),
    ("%python", sys.executable),
    ("%tools", os.path.join(config.culprit_build, "sim")),
    ("%attach", os.path.join(config.culprit_build, "attach")),
    ("%agent", os.path.join(config.culprit_build, "lib", "libculprit-agent.so")),
    ("FileCheck", config.filecheck),
    ("split-file", os.path.join(config.llvm_tools, "split-file")),
    (r"(?<![/.\w-])not(?= )", os.path.join(config.llvm_tools, "not")),
]

# Tests over the shared traces are skipped, with a word, where these are not.
if os.path.isdir(os.path.join(shared, "traces")):
    config.available_features.add("shared-traces")
else:
    lit_config.note("no shared traces beside the repository: their tests are unsupported")

# Built by scripts/test; see the preset asan.
sanitized = os.path.join(config.culprit_source, "build-asan", "unit")
if os.path.exists(os.path.join(sanitized, "ScriptTests")):
    config.available_features.add("sanitized")
config.substitutions.append(("%sanitized", sanitized))
config.environment["UBSAN_OPTIONS"] = "halt_on_error=1:print_stacktrace=1"

# The agent and the simulated device: not in every build.
if os.path.exists(os.path.join(config.culprit_build, "sim", "workload")):
    config.available_features.add("agent")

# Attaching wants a kernel that lets us trace a process that is no child.
sleeper = subprocess.Popen(["sleep", "60"])
try:
    open(f"/proc/{sleeper.pid}/mem", "rb").close()
    if not os.path.exists("/proc/sys/kernel/yama/ptrace_scope") or os.geteuid() == 0:
        config.available_features.add("ptrace")
except OSError:
    lit_config.note("processes may not be traced here: tests that attach are unsupported")
finally:
    sleeper.kill()
    sleeper.wait()

# A disk that is full, and folders without the right to run code: in mounts of a process's own.
if os.geteuid() == 0 and shutil.which("unshare") and not subprocess.run(
        ["unshare", "-m", "/bin/sh", "-c", "mount -t tmpfs -o noexec none /tmp"], stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, check=False).returncode:
    config.available_features.add("mounts")

# What is held against NVIDIA's own compiler, and against its libcupti of CUDA 13.0.
if shutil.which("nvcc") or glob.glob("/usr/local/cuda*/bin/nvcc"):
    config.available_features.add("toolkit")
facts = os.path.join(config.culprit_build, "sim", "cupti-facts")
for library in glob.glob("/usr/local/cuda*/lib*/libcupti.so.13") + \
        glob.glob("/usr/local/cuda*/extras/CUPTI/lib64/libcupti.so.13"):
    if os.path.exists(facts) and "version 1300" in subprocess.run(
            [facts, library], env={"LD_LIBRARY_PATH": os.path.dirname(facts)}, capture_output=True, text=True,
            check=False).stdout:
        config.available_features.add("cupti-13.0")

# Bisecting commits wants git.
if shutil.which("git", path=config.environment.get("PATH", os.defpath)):
    config.available_features.add("git")

# The recorder's own test needs a Python with torch, which may be another one.
torch_python = os.environ.get("CULPRIT_TORCH_PYTHON", sys.executable)
if not subprocess.run([torch_python, "-c", "import torch"], stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL, check=False).returncode:
    config.available_features.add("torch")
config.substitutions.append(("%torch-python", torch_python))

# Growing the trees of recorded runs wants scikit-learn 1.4, which the program does not; its Python may be another one too.
sklearn_python = os.environ.get("CULPRIT_SKLEARN_PYTHON", sys.executable)
if not subprocess.run([sklearn_python, "-c", "import sklearn; assert tuple(map(int, sklearn.__version__.split('.')[:2])) >= (1, 4)"], stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL, check=False).returncode:
    config.available_features.add("sklearn")
else:
    lit_config.note("no scikit-learn 1.4: the test of fit-rank --recorded is unsupported")
config.substitutions.append(("%sklearn-python", sklearn_python))
