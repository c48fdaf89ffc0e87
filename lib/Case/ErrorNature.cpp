//===- ErrorNature.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/ErrorNature.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace culprit {

static bool holdsAny(StringRef Text, ArrayRef<StringRef> Phrases) {
  return any_of(Phrases, [&](StringRef Phrase) {
    return Text.contains_insensitive(Phrase);
  });
}

/// The class without its module: ChildFailedError.
static StringRef className(StringRef Type) {
  size_t Dot = Type.rfind('.');
  return Dot == StringRef::npos ? Type : Type.drop_front(Dot + 1);
}

bool ErrorText::isDriverNote() const {
  return Type == "Xid" && (Code == "43" || Code == "45" || Code == "154" ||
                           Code == "106" || Code == "107");
}

static bool isWarning(const ErrorText &E) {
  return E.Type == "warning" || E.Type.ends_with("Warning") ||
         (E.Type == "NCCL" && E.Signature.empty() && E.Code.empty()) ||
         (E.Type == "unknown" && E.Message.empty()) || // a log that breaks off
         (E.Type == "SXid" && E.Signature.empty());
}

/// Classes that are raised about another process.
static constexpr StringLiteral Reports[] = {
    "ChildFailedError",       "RayActorError",
    "ActorDiedError",         "ActorUnavailableError",
    "WorkerCrashedError",     "OwnerDiedError",
    "ObjectLostError",        "ConnectionResetError",
    "ProcessExitedException", "ProcessRaisedException",
    "BrokenProcessPool",      "CalledProcessError",
    "EngineDeadError",        "NodeDiedError"};

/// Servers and wrappers refer to what another process printed.
static bool refersToAnother(StringRef Message) {
  return holdsAny(Message, {"see root cause above", "see stack trace",
                            "stack trace above for the root cause"});
}

ErrorNature natureOf(const ErrorText &E) {
  if (E.isDriverNote())
    return ErrorNature::Note;
  if (E.Signature == "terminated")
    return ErrorNature::Stop;
  StringRef Class = className(E.Type);
  // Only the first line: the others hold PyTorch's hints.
  StringRef Message = E.Message.split('\n').first;
  if (isWarning(E))
    return holdsAny(Message, {"deprecat", "consider setting", "please set",
                              "to suppress this", "consider passing",
                              "is recommended", "you can disable",
                              "destroy_process_group"})
               ? ErrorNature::Advice
               : ErrorNature::Note;
  if (Class == "SignalException" || Class == "BrokenPipeError" ||
      Class == "CancelledError" || Class == "GeneratorExit" ||
      holdsAny(Message,
               {"broken pipe", "destroy_process_group", "got signal: 15",
                "exception ignored in", "interpreter shutdown",
                "event loop is closed", "driver shutting down",
                "cannot schedule new futures"}) ||
      holdsAny(E.Frames, {" __del__", " _exit_function", " _run_exitfuncs",
                          " destroy_process_group"}))
    return ErrorNature::Stop;
  // A launcher's word; what crashed says so itself with the type "crash".
  if (E.Signature == "native-crash" && E.Type != "crash" && !E.HasFrames)
    return ErrorNature::Report;
  if (is_contained(Reports, Class) || E.Signature == "rank-exited" ||
      refersToAnother(Message) ||
      holdsAny(Message, {"exited unexpectedly", "actor died",
                         "actor is dead", "worker died", "has died"}))
    return ErrorNature::Report;
  if (E.Signature == "nccl-timeout" || E.Signature == "nccl-network" ||
      E.Signature == "rdma-error")
    return ErrorNature::Sign;
  // What DistBackendError carries may be a cause ("Duplicate GPU detected").
  if ((Class == "DistBackendError" || Class == "DistNetworkError" ||
       Class == "DistStoreError") &&
      holdsAny(Message, {"abort", "timeout", "timed out", "connection"}))
    return ErrorNature::Sign;
  // NCCL's own checks fail where a peer has gone.
  if (E.Code == "ncclInternalError" ||
      (holdsAny(Message, {"NCCL error in"}) &&
       holdsAny(Message, {"internal error", "system error"})))
    return ErrorNature::Sign;
  return ErrorNature::Root;
}

/// A kernel that read or wrote what it must not: its context fails at every
/// call from then on.
static bool isFaultOfKernel(const ErrorText &E) {
  return E.Signature == "illegal-access" || E.Signature == "device-assert" ||
         E.Signature == "index-out-of-bounds";
}

static bool isFaultOfDevice(const ErrorText &E) {
  return E.Signature == "ecc" || E.Signature == "xid" ||
         E.Signature == "nvlink";
}

static bool isOfCuda(const ErrorText &E) {
  return isFaultOfKernel(E) ||
         holdsAny(E.Type, {"cuda", "cublas", "cudnn", "nccl",
                           "AcceleratorError", "DistBackendError"}) ||
         holdsAny(E.Message, {"CUDA error", "CUDNN_STATUS", "CUBLAS_STATUS",
                              "NCCL error"});
}

bool explains(const ErrorText &First, const ErrorText &Later) {
  // A device has faults of its own, but those of a link or a switch show on
  // both sides of it.
  // A kernel that faulted is not switched out in time.
  if (First.fromDriver() && First.Signature == "illegal-access" &&
      Later.Type == "Xid" && Later.Code == "109" &&
      First.Device == Later.Device)
    return true;
  if (First.fromDriver() && Later.fromDriver())
    return (First.Signature == "nvlink" && Later.Signature == "nvlink") ||
           (First.Device == Later.Device &&
            (isFaultOfDevice(First) || First.Code == Later.Code));
  if (First.kind() == Later.kind())
    return true;
  // Whatever a process says that was told to end.
  if (First.Signature == "terminated")
    return !Later.fromDriver();
  // A process that crashes leaves its peers with broken connections.
  if (First.Type == "crash")
    return Later.Type == "NCCL" || Later.Type.starts_with("nccl") ||
           holdsAny(Later.Message, {"NCCL error"});
  if (Later.fromDriver())
    return isFaultOfDevice(First) && isFaultOfDevice(Later);
  return (isFaultOfDevice(First) || isFaultOfKernel(First)) &&
         (isOfCuda(Later) || isFaultOfDevice(Later));
}

} // namespace culprit
