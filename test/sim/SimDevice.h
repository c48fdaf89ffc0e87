//===- SimDevice.h - A device that is not there -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The simulated `libcuda.so.1`: calls for test programs, each of which stands
/// for a CUDA call, and hooks by which the simulated libcupti hears of them.
/// Work has a start and an end on a stream's timeline; a synchronisation waits
/// for them in real time.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TEST_SIM_SIMDEVICE_H
#define CULPRIT_TEST_SIM_SIMDEVICE_H

#include <cstddef>
#include <cstdint>

/// A piece of work as the device did it.
struct SimWork {
  enum Kind : uint32_t { Kernel, Copy, Set } What;
  const char *Name;  ///< Of a kernel; the caller keeps it.
  uint64_t Start, End; ///< CLOCK_REALTIME, ns.
  uint64_t Bytes;
  uint32_t Stream, Correlation;
  uint8_t CopyKind;  ///< 1 HtoD, 2 DtoH, 8 DtoD.
  uint32_t Graph;
  uint64_t GraphNode;
};

struct SimSync {
  uint32_t Type; ///< 1 event, 2 stream wait, 3 stream, 4 context.
  uint32_t Stream, Correlation;
  uint64_t Start, End;
};

struct SimMemory {
  uint32_t Operation; ///< 1 allocation, 2 release.
  uint64_t Address, Bytes, At;
  uint32_t Correlation;
};

/// A launch of a graph as one.
struct SimGraph {
  uint32_t Graph, Stream, Correlation;
  uint64_t Start, End;
};

/// A CUDA event put into a stream.
struct SimEvent {
  uint32_t Event, Stream, Correlation;
};

/// Managed memory that goes to the device.
struct SimPages {
  uint64_t Address, Bytes, Start, End;
};

/// Set by the simulated libcupti; any may be null.
struct SimHooks {
  /// Parameters may be null.
  void (*Enter)(int Domain, uint32_t Id, const void *Parameters);
  void (*Exit)(int Domain, uint32_t Id, uint32_t Correlation, uint64_t Start,
               uint64_t End, uint32_t Result, const void *Parameters);
  void (*Work)(const SimWork &W);
  void (*Sync)(const SimSync &S);
  void (*Memory)(const SimMemory &M);
  void (*Graph)(const SimGraph &G);
  void (*Event)(const SimEvent &E);
  void (*Pages)(const SimPages &P);
};

extern "C" {
/// cuInit: loads the library of CUDA_INJECTION64_PATH and calls its
/// InitializeInjection, as the driver does.
int cuInit(unsigned Flags);
int cuDriverGetVersion(int *Version);

void simSetHooks(const SimHooks *Hooks);
/// The only CUcontext.
void *simContext(void);

/// cudaLaunchKernel: \p Duration ns on \p Stream.
void simLaunch(const char *Name, uint32_t Stream, uint64_t Duration);
/// cuLaunchKernel, as a program without the runtime calls it.
void simDriverLaunch(const char *Name, uint32_t Stream, uint64_t Duration);
/// cudaMemcpyAsync at 10 GB/s; waits when \p Stream is 0, as cudaMemcpy.
void simCopy(uint8_t Kind, uint64_t Bytes, uint32_t Stream);
void simSet(uint64_t Bytes, uint32_t Stream);
void simStreamSynchronize(uint32_t Stream);
void simDeviceSynchronize(void);
uint64_t simMalloc(uint64_t Bytes);
void simFree(uint64_t Address);
/// cudaGraphLaunch of \p Nodes kernels.
void simGraphLaunch(uint32_t Graph, unsigned Nodes, uint32_t Stream,
                    uint64_t Duration);
/// cudaEventRecord.
void simEventRecord(uint32_t Event, uint32_t Stream);
/// A kernel touches \p Bytes of managed memory that are on the host.
void simPageIn(uint64_t Bytes);
/// cudaGetDevice: a call that says nothing.
void simGetDevice(void);

/// cudaStreamBeginCapture and cudaStreamEndCapture. Nothing is captured.
void simBeginCapture(uint64_t Stream);
void simEndCapture(uint64_t Stream);
/// Captures that go on.
unsigned simCaptures(void);

/// nvtxRangePushA and nvtxRangePop, as a program's own NVTX has them.
void simRangePush(const char *Name);
void simRangePop(void);

/// Whether the calling thread is inside one of the calls above.
bool simInsideCall(void);
/// Threads that are.
unsigned simThreadsInside(void);
}

#endif // CULPRIT_TEST_SIM_SIMDEVICE_H
