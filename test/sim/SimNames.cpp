//===- SimNames.cpp - Names of results and calls ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "SimCupti.h"
#include <iterator>

using namespace simcupti;
using namespace culprit::cupti;

/// By number; null where there is none.
static const char *const Results[] = {
    "SUCCESS", "ERROR_INVALID_PARAMETER", "ERROR_INVALID_DEVICE",
    "ERROR_INVALID_CONTEXT", "ERROR_INVALID_EVENT_DOMAIN_ID",
    "ERROR_INVALID_EVENT_ID", "ERROR_INVALID_EVENT_NAME",
    "ERROR_INVALID_OPERATION", "ERROR_OUT_OF_MEMORY", "ERROR_HARDWARE",
    "ERROR_PARAMETER_SIZE_NOT_SUFFICIENT", "ERROR_API_NOT_IMPLEMENTED",
    "ERROR_MAX_LIMIT_REACHED", "ERROR_NOT_READY", "ERROR_NOT_COMPATIBLE",
    "ERROR_NOT_INITIALIZED", "ERROR_INVALID_METRIC_ID",
    "ERROR_INVALID_METRIC_NAME", "ERROR_QUEUE_EMPTY", "ERROR_INVALID_HANDLE",
    "ERROR_INVALID_STREAM", "ERROR_INVALID_KIND", "ERROR_INVALID_EVENT_VALUE",
    "ERROR_DISABLED", "ERROR_INVALID_MODULE", "ERROR_INVALID_METRIC_VALUE",
    "ERROR_HARDWARE_BUSY", "ERROR_NOT_SUPPORTED",
    "ERROR_UM_PROFILING_NOT_SUPPORTED",
    "ERROR_UM_PROFILING_NOT_SUPPORTED_ON_DEVICE",
    "ERROR_UM_PROFILING_NOT_SUPPORTED_ON_NON_P2P_DEVICES",
    "ERROR_UM_PROFILING_NOT_SUPPORTED_WITH_MPS",
    "ERROR_CDP_TRACING_NOT_SUPPORTED",
    "ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED",
    "ERROR_CUDA_COMPILER_NOT_COMPATIBLE", "ERROR_INSUFFICIENT_PRIVILEGES",
    nullptr, nullptr, "ERROR_LEGACY_PROFILER_NOT_SUPPORTED",
    "ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
    "ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES",
    "ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED",
    "ERROR_CMP_DEVICE_NOT_SUPPORTED", "ERROR_MIG_DEVICE_NOT_SUPPORTED",
    "ERROR_SLI_DEVICE_NOT_SUPPORTED", "ERROR_WSL_DEVICE_NOT_SUPPORTED",
    "ERROR_INVALID_CHIP_NAME"};

/// "CUPTI_" and the name, which lives as long as the process.
static const char *nameOf(Result Code) {
  struct Full {
    char Text[80];
  };
  static const Full *const All = [] {
    Full *Out = new Full[std::size(Results)]();
    for (size_t I = 0; I < std::size(Results); ++I)
      if (Results[I]) {
        std::strcpy(Out[I].Text, "CUPTI_");
        std::strcat(Out[I].Text, Results[I]);
      }
    return Out;
  }();
  static const char *const Last[] = {
      "CUPTI_ERROR_UNKNOWN", "CUPTI_ERROR_CANT_OPEN_FILE",
      "CUPTI_ERROR_FROM_DBMS", "CUPTI_ERROR_OPENED_FOR_WRITE",
      "CUPTI_ERROR_OPENED_FOR_READ", "CUPTI_ERROR_TRUNCATED_PDM"};
  if (Code >= Unknown && size_t(Code - Unknown) < std::size(Last))
    return Last[Code - Unknown];
  if (Code < 0 || size_t(Code) >= std::size(Results) || !Results[Code])
    return nullptr;
  return All[Code].Text;
}

SIM cuptiGetResultString(Result Code, const char **Text) {
  if (!Text)
    return told(InvalidParameter);
  const char *Name = nameOf(Code);
  *Text = Name ? Name : "<unknown>";
  return told(Name ? Result(Success) : InvalidParameter);
}

/// For most codes it is the name, also in the real one.
SIM cuptiGetErrorMessage(Result Code, const char **Text) {
  if (!Text)
    return told(InvalidParameter);
  const char *Name = nameOf(Code);
  switch (Code) {
  case InvalidDevice:
    *Text = "This is not a CUDA device.";
    break;
  case InsufficientPrivileges:
    *Text = "The administrator keeps performance counters from users.";
    break;
  case 40:
    *Text = "The hypervisor does not allow profiling.";
    break;
  case 41:
    *Text = "Confidential computing does not allow profiling.";
    break;
  case 42:
    *Text = "Mining processors cannot be profiled.";
    break;
  default:
    *Text = Name ? Name : "<unknown>";
  }
  return Success;
}

static const char *const DriverNames[] = {
#include "DriverNames.def"
};
static const char *const RuntimeNames[] = {
#include "RuntimeNames.def"
};

SIM cuptiGetCallbackName(int Domain, uint32_t Id, const char **Name) {
  if (!Name)
    return told(InvalidParameter);
  if (Domain == DriverApi && Id < std::size(DriverNames))
    *Name = DriverNames[Id];
  else if (Domain == RuntimeApi && Id < std::size(RuntimeNames))
    *Name = RuntimeNames[Id];
  else
    return told(InvalidParameter);
  return Success;
}
