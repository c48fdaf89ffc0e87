//===- CuptiHeadersTest.cpp - Our facts of CUPTI against its own -*- C++ -*-==//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Compiled where a toolkit is: offsets and types of Records.def, numbers of
/// CuptiAbi.h and ids of DriverCalls.def against the headers of CUPTI 13.0. A
/// mistake is an error of the compiler.
///
//===----------------------------------------------------------------------===//

#include "gtest/gtest.h"

#ifndef CULPRIT_HAVE_CUPTI_HEADERS

TEST(CuptiHeadersTest, Agree) {
  GTEST_SKIP() << "no headers of CUPTI: nothing was compared";
}

#else

#include "Agent/CuptiAbi.h"
#include "Capture/Decode.h"
#include <cupti.h>

// Headers of another version may lack structs that are named here.
#if CUPTI_API_VERSION < 130000

TEST(CuptiHeadersTest, Agree) {
  GTEST_SKIP() << "the headers of CUPTI are older than 13.0";
}

#else

using namespace culprit;

namespace {

// The newest layout that CUPTI 13.0 has of each kind.
using KernelLayout = CUpti_ActivityKernel10;
using CopyLayout = CUpti_ActivityMemcpy6;
using PeerCopyLayout = CUpti_ActivityMemcpyPtoP4;
using SetLayout = CUpti_ActivityMemset4;
using CallLayout = CUpti_ActivityAPI;
using SyncLayout = CUpti_ActivitySynchronization2;
using MemoryLayout = CUpti_ActivityMemory4;
using PoolLayout = CUpti_ActivityMemoryPool3;
using OverheadLayout = CUpti_ActivityOverhead3;
using GraphLaunchLayout = CUpti_ActivityGraphTrace2;
using MarkerLayout = CUpti_ActivityMarker2;
using ExternalLayout = CUpti_ActivityExternalCorrelation;
using EventLayout = CUpti_ActivityCudaEvent2;
using DeviceLayout = CUpti_ActivityDevice5;
using ContextLayout = CUpti_ActivityContext3;
using StreamLayout = CUpti_ActivityStream;
using NameLayout = CUpti_ActivityName;
using PagingLayout = CUpti_ActivityUnifiedMemoryCounter3;

constexpr size_t U8 = 1, U16 = 2, U32 = 4, U64 = 8, I32 = 4, String = 8;

/// Field \p Theirs of a struct is where FIELD says; Records.def is held against
/// it below, by name.
#define IS(Id, Ours, Theirs)                                                   \
  constexpr size_t Id##_##Ours = offsetof(Id##Layout, Theirs);                 \
  constexpr size_t Id##_##Ours##__width = sizeof(Id##Layout::Theirs);

IS(Kernel, start, start)
IS(Kernel, end, end)
IS(Kernel, graph_node, graphNodeId)
IS(Kernel, name, name)
IS(Kernel, device, deviceId)
IS(Kernel, context, contextId)
IS(Kernel, stream, streamId)
IS(Kernel, correlation, correlationId)
IS(Kernel, graph, graphId)
IS(Kernel, grid_x, gridX)
IS(Kernel, grid_y, gridY)
IS(Kernel, grid_z, gridZ)
IS(Kernel, block_x, blockX)
IS(Kernel, block_y, blockY)
IS(Kernel, block_z, blockZ)
IS(Kernel, static_shared, staticSharedMemory)
IS(Kernel, dynamic_shared, dynamicSharedMemory)
IS(Kernel, local_per_thread, localMemoryPerThread)
IS(Kernel, cluster_x, clusterX)
IS(Kernel, cluster_y, clusterY)
IS(Kernel, cluster_z, clusterZ)
IS(Kernel, registers, registersPerThread)
IS(Kernel, launch_type, launchType)

IS(Copy, start, start)
IS(Copy, end, end)
IS(Copy, bytes, bytes)
IS(Copy, graph_node, graphNodeId)
IS(Copy, copies, copyCount)
IS(Copy, device, deviceId)
IS(Copy, context, contextId)
IS(Copy, stream, streamId)
IS(Copy, correlation, correlationId)
IS(Copy, graph, graphId)
IS(Copy, copy_kind, copyKind)
IS(Copy, src_kind, srcKind)
IS(Copy, dst_kind, dstKind)
IS(Copy, flags, flags)

IS(PeerCopy, start, start)
IS(PeerCopy, end, end)
IS(PeerCopy, bytes, bytes)
IS(PeerCopy, graph_node, graphNodeId)
IS(PeerCopy, device, deviceId)
IS(PeerCopy, context, contextId)
IS(PeerCopy, stream, streamId)
IS(PeerCopy, src_device, srcDeviceId)
IS(PeerCopy, dst_device, dstDeviceId)
IS(PeerCopy, correlation, correlationId)
IS(PeerCopy, graph, graphId)
IS(PeerCopy, copy_kind, copyKind)
IS(PeerCopy, src_kind, srcKind)
IS(PeerCopy, dst_kind, dstKind)
IS(PeerCopy, flags, flags)

IS(Set, start, start)
IS(Set, end, end)
IS(Set, bytes, bytes)
IS(Set, graph_node, graphNodeId)
IS(Set, value, value)
IS(Set, device, deviceId)
IS(Set, context, contextId)
IS(Set, stream, streamId)
IS(Set, correlation, correlationId)
IS(Set, graph, graphId)
IS(Set, flags, flags)
IS(Set, memory_kind, memoryKind)

IS(Call, start, start)
IS(Call, end, end)
IS(Call, callback, cbid)
IS(Call, process, processId)
IS(Call, thread, threadId)
IS(Call, correlation, correlationId)
IS(Call, result, returnValue)

IS(Sync, start, start)
IS(Sync, end, end)
IS(Sync, event_sync, cudaEventSyncId)
IS(Sync, type, type)
IS(Sync, correlation, correlationId)
IS(Sync, context, contextId)
IS(Sync, stream, streamId)
IS(Sync, event, cudaEventId)
IS(Sync, result, returnValue)

IS(Memory, at, timestamp)
IS(Memory, address, address)
IS(Memory, bytes, bytes)
IS(Memory, pool, memoryPoolConfig.address)
IS(Memory, pool_size, memoryPoolConfig.pool.size)
IS(Memory, pool_used, memoryPoolConfig.utilizedSize)
IS(Memory, operation, memoryOperationType)
IS(Memory, memory_kind, memoryKind)
IS(Memory, correlation, correlationId)
IS(Memory, process, processId)
IS(Memory, device, deviceId)
IS(Memory, context, contextId)
IS(Memory, stream, streamId)
IS(Memory, name, name)
IS(Memory, is_async, isAsync)
IS(Memory, pool_type, memoryPoolConfig.memoryPoolType)

IS(Pool, at, timestamp)
IS(Pool, address, address)
IS(Pool, size, size)
IS(Pool, used, utilizedSize)
IS(Pool, kept_at_least, minBytesToKeep)
IS(Pool, release_threshold, releaseThreshold)
IS(Pool, operation, memoryPoolOperationType)
IS(Pool, type, memoryPoolType)
IS(Pool, correlation, correlationId)
IS(Pool, process, processId)
IS(Pool, device, deviceId)
IS(Pool, managed, isManagedPool)

IS(Overhead, start, start)
IS(Overhead, end, end)
IS(Overhead, kind, overheadKind)
IS(Overhead, object, objectKind)
IS(Overhead, process, objectId.pt.processId)
IS(Overhead, thread, objectId.pt.threadId)
IS(Overhead, correlation, correlationId)

IS(GraphLaunch, start, start)
IS(GraphLaunch, end, end)
IS(GraphLaunch, correlation, correlationId)
IS(GraphLaunch, device, deviceId)
IS(GraphLaunch, graph, graphId)
IS(GraphLaunch, context, contextId)
IS(GraphLaunch, stream, streamId)

IS(Marker, at, timestamp)
IS(Marker, flags, flags)
IS(Marker, id, id)
IS(Marker, object, objectKind)
IS(Marker, process, objectId.pt.processId)
IS(Marker, thread, objectId.pt.threadId)
IS(Marker, name, name)
IS(Marker, domain, domain)

IS(External, external, externalId)
IS(External, kind, externalKind)
IS(External, correlation, correlationId)

IS(Event, at, deviceTimestamp)
IS(Event, event_sync, cudaEventSyncId)
IS(Event, correlation, correlationId)
IS(Event, context, contextId)
IS(Event, stream, streamId)
IS(Event, event, eventId)
IS(Event, device, deviceId)

IS(Device, bandwidth, globalMemoryBandwidth)
IS(Device, memory, globalMemorySize)
IS(Device, name, name)
IS(Device, id, id)
IS(Device, multiprocessors, numMultiprocessors)
IS(Device, core_clock, coreClockRate)
IS(Device, l2_size, l2CacheSize)
IS(Device, warps, maxWarpsPerMultiprocessor)
IS(Device, blocks, maxBlocksPerMultiprocessor)
IS(Device, shared, maxSharedMemoryPerMultiprocessor)
IS(Device, registers, maxRegistersPerMultiprocessor)
IS(Device, capability_major, computeCapabilityMajor)
IS(Device, capability_minor, computeCapabilityMinor)
IS(Device, ecc, eccEnabled)
IS(Device, mig, isMigEnabled)
// The 16 bytes of the identity are two numbers of ours.
constexpr size_t Device_uuid_low = offsetof(DeviceLayout, uuid);
constexpr size_t Device_uuid_low__width = sizeof(DeviceLayout::uuid) / 2;
constexpr size_t Device_uuid_high = Device_uuid_low + 8;
constexpr size_t Device_uuid_high__width = 8;

IS(Context, context, contextId)
IS(Context, device, deviceId)
IS(Context, api, computeApiKind)
IS(Context, null_stream, nullStreamId)

IS(Stream, context, contextId)
IS(Stream, stream, streamId)
IS(Stream, priority, priority)
IS(Stream, flag, flag)
IS(Stream, correlation, correlationId)

IS(Name, object, objectKind)
IS(Name, process, objectId.pt.processId)
IS(Name, thread, objectId.pt.threadId)
IS(Name, stream, objectId.dcs.streamId)
IS(Name, name, name)

IS(Paging, start, start)
IS(Paging, end, end)
IS(Paging, value, value)
IS(Paging, address, address)
IS(Paging, counter, counterKind)
IS(Paging, src, srcId)
IS(Paging, dst, dstId)
IS(Paging, stream, streamId)
IS(Paging, process, processId)
IS(Paging, flags, flags)

#define CAPTURE_FIELD(Id, Name, Type, Offset, From)                            \
  static_assert(Id##_##Name == Offset && Id##_##Name##__width == From,           \
                #Id "." #Name);
#include "Capture/Records.def"
#define CAPTURE_SHAPE(Name, Type, Offset, From)                                \
  static_assert(Kernel_##Name == Offset && Kernel_##Name##__width == From,       \
                #Name);
#include "Capture/Records.def"

namespace activity = capture::activity;
static_assert(int(activity::Memcpy) == CUPTI_ACTIVITY_KIND_MEMCPY);
static_assert(int(activity::Memset) == CUPTI_ACTIVITY_KIND_MEMSET);
static_assert(int(activity::Kernel) == CUPTI_ACTIVITY_KIND_KERNEL);
static_assert(int(activity::Driver) == CUPTI_ACTIVITY_KIND_DRIVER);
static_assert(int(activity::Runtime) == CUPTI_ACTIVITY_KIND_RUNTIME);
static_assert(int(activity::Device) == CUPTI_ACTIVITY_KIND_DEVICE);
static_assert(int(activity::Context) == CUPTI_ACTIVITY_KIND_CONTEXT);
static_assert(int(activity::ConcurrentKernel) ==
              CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
static_assert(int(activity::Name) == CUPTI_ACTIVITY_KIND_NAME);
static_assert(int(activity::Marker) == CUPTI_ACTIVITY_KIND_MARKER);
static_assert(int(activity::Overhead) == CUPTI_ACTIVITY_KIND_OVERHEAD);
static_assert(int(activity::MemcpyPeer) == CUPTI_ACTIVITY_KIND_MEMCPY2);
static_assert(int(activity::UnifiedMemory) ==
              CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER);
static_assert(int(activity::CudaEvent) == CUPTI_ACTIVITY_KIND_CUDA_EVENT);
static_assert(int(activity::Stream) == CUPTI_ACTIVITY_KIND_STREAM);
static_assert(int(activity::Synchronization) ==
              CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
static_assert(int(activity::ExternalCorrelation) ==
              CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
static_assert(int(activity::Memory) == CUPTI_ACTIVITY_KIND_MEMORY2);
static_assert(int(activity::MemoryPool) == CUPTI_ACTIVITY_KIND_MEMORY_POOL);
static_assert(int(activity::GraphTrace) == CUPTI_ACTIVITY_KIND_GRAPH_TRACE);

static_assert(int(cupti::Success) == CUPTI_SUCCESS);
static_assert(int(cupti::MaxLimitReached) == CUPTI_ERROR_MAX_LIMIT_REACHED);
static_assert(int(cupti::NotInitialized) == CUPTI_ERROR_NOT_INITIALIZED);
static_assert(int(cupti::InvalidKind) == CUPTI_ERROR_INVALID_KIND);
static_assert(int(cupti::NotSupported) == CUPTI_ERROR_NOT_SUPPORTED);
static_assert(int(cupti::InsufficientPrivileges) == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
static_assert(int(cupti::MultipleSubscribers) == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
static_assert(int(cupti::Unknown) == CUPTI_ERROR_UNKNOWN);
static_assert(int(cupti::DriverApi) == CUPTI_CB_DOMAIN_DRIVER_API);
static_assert(int(cupti::RuntimeApi) == CUPTI_CB_DOMAIN_RUNTIME_API);
static_assert(int(cupti::ApiEnter) == CUPTI_API_ENTER);
static_assert(int(cupti::ApiExit) == CUPTI_API_EXIT);
static_assert(int(cupti::ThreadIdSystem) ==
              CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
static_assert(uint32_t(cupti::FlushForced) ==
              CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
static_assert(int(cupti::AttributeZeroedOut) ==
              CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER);
static_assert(int(cupti::AttributePerThread) ==
              CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER);
static_assert(offsetof(CUpti_CallbackData, callbackSite) == 0 &&
              sizeof(CUpti_ApiCallbackSite) ==
                  sizeof(cupti::CallbackData::Site));
static_assert(offsetof(CUpti_CallbackData, functionParams) ==
                  offsetof(cupti::CallbackData, Parameters) &&
              offsetof(CUpti_CallbackData, functionReturnValue) ==
                  offsetof(cupti::CallbackData, Result));
static_assert(sizeof(cupti::SubscriberParams) ==
                  sizeof(CUpti_SubscriberParams) &&
              offsetof(cupti::SubscriberParams, OldName) ==
                  offsetof(CUpti_SubscriberParams, oldSubscriberName) &&
              offsetof(cupti::SubscriberParams, OldSize) ==
                  offsetof(CUpti_SubscriberParams, oldSubscriberSize));

static_assert(sizeof(cupti::PagingConfig) ==
                  sizeof(CUpti_ActivityUnifiedMemoryCounterConfig) &&
              offsetof(cupti::PagingConfig, Kind) ==
                  offsetof(CUpti_ActivityUnifiedMemoryCounterConfig, kind) &&
              offsetof(cupti::PagingConfig, Enable) ==
                  offsetof(CUpti_ActivityUnifiedMemoryCounterConfig, enable));
static_assert(
    int(cupti::PagingOfAllDevices) ==
        CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_ALL_DEVICES &&
    int(cupti::PagingToDevice) ==
        CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD &&
    int(cupti::PagingToHost) ==
        CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH &&
    int(cupti::PagingDeviceFaults) ==
        CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT);

// Only tails grew from 11.8 on.
#define SAME(New, Old, Field)                                                  \
  static_assert(offsetof(New, Field) == offsetof(Old, Field), #New "." #Field)
SAME(CUpti_ActivityKernel10, CUpti_ActivityKernel8, name);
SAME(CUpti_ActivityKernel10, CUpti_ActivityKernel8, graphId);
SAME(CUpti_ActivityKernel10, CUpti_ActivityKernel9, clusterX);
SAME(CUpti_ActivityMemcpy6, CUpti_ActivityMemcpy5, graphId);
SAME(CUpti_ActivityMemory4, CUpti_ActivityMemory3, name);
SAME(CUpti_ActivityMemory4, CUpti_ActivityMemory3, memoryPoolConfig.address);
SAME(CUpti_ActivityMemoryPool3, CUpti_ActivityMemoryPool2, utilizedSize);
static_assert(sizeof(CUpti_ActivityMemoryPool2) == 72 &&
              sizeof(CUpti_ActivityMemoryPool3) == 80);
SAME(CUpti_ActivityOverhead3, CUpti_ActivityOverhead, end);
SAME(CUpti_ActivitySynchronization2, CUpti_ActivitySynchronization,
     cudaEventId);
SAME(CUpti_ActivityDevice5, CUpti_ActivityDevice4, name);
SAME(CUpti_ActivityContext3, CUpti_ActivityContext, nullStreamId);
SAME(CUpti_ActivityCudaEvent2, CUpti_ActivityCudaEvent, eventId);
SAME(CUpti_ActivityGraphTrace2, CUpti_ActivityGraphTrace, streamId);
SAME(CUpti_ActivityUnifiedMemoryCounter3, CUpti_ActivityUnifiedMemoryCounter2,
     processId);

} // namespace

TEST(CuptiHeadersTest, Agree) {
  SUCCEED() << "compared by the compiler";
}

#endif
#endif
