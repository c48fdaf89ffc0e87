//===- tensor-statistics.cpp - statistics beside a plain sum ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Times all statistics of the `tensors` table beside a plain vector sum over
// the same map of the same file with the same threads, for float32, bfloat16
// and float16. The goals are half of the sum's bandwidth for float32 and 0.4
// for the 16-bit formats, in bytes; for float32 also 100 times what NumPy
// takes for the same figures. Runs alternate, so that a busy machine slows
// both; the ratio is of the medians. A second pair of times is of reading the
// file as a case, from open() to the table, beside a sum over a fresh map.
//
// usage: tensor-statistics [GIB [THREADS [RUNS [PYTHON]]]]
//
// A safetensors file of GIB (4) of each dtype is made in the folder for
// temporary files and removed: 16 tensors of normal values. The sum of the
// 16-bit formats is of their bits as integers, the cheapest there is. PYTHON is
// an interpreter that has NumPy; it reads the first 256 MiB, and its time is
// scaled by bytes. 'none' (as without one) leaves it out.
//
//===----------------------------------------------------------------------===//

#include "Readers/Reader.h"
#include "Tensor/Tensor.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"
#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

using namespace culprit;

static constexpr size_t NumTensors = 16;

/// \p X in the 16 bits of float16, towards zero; |x| is at most 8.
static uint16_t halfOf(float X) {
  const uint32_t Bits = std::bit_cast<uint32_t>(X);
  const int Exponent = int(Bits >> 23 & 255) - 112;
  const uint16_t Sign = uint16_t(Bits >> 16 & 0x8000);
  return Exponent <= 0
             ? Sign
             : uint16_t(Sign | Exponent << 10 | (Bits >> 13 & 1023));
}

/// Writes a file of \p Bytes of values of \p Type. Returns where they begin.
static size_t writeFile(const std::string &Path, DType Type, size_t Bytes) {
  std::error_code EC;
  llvm::raw_fd_ostream OS(Path, EC);
  const size_t Each = Bytes / NumTensors;
  const char *Name = Type == DType::Float32    ? "F32"
                     : Type == DType::BFloat16 ? "BF16"
                                               : "F16";
  std::string Header = "{";
  for (size_t I = 0; I != NumTensors; ++I)
    Header += (I ? "," : "") + ("\"layers." + std::to_string(I)) +
              ".mlp.output\":{\"dtype\":\"" + Name + "\",\"shape\":[" +
              std::to_string(Each / sizeOf(Type) / 1024) +
              ",1024],\"data_offsets\":[" + std::to_string(I * Each) + "," +
              std::to_string((I + 1) * Each) + "]}";
  Header += "}";
  Header.resize((Header.size() + 8 + 63) / 64 * 64 - 8, ' ');
  const uint64_t Length = Header.size();
  OS.write(reinterpret_cast<const char *>(&Length), 8);
  OS << Header;
  // Sums of four uniform numbers are as good as normal ones here.
  std::vector<char> Row(4 << 20);
  uint64_t State = 1;
  for (size_t Left = Bytes; Left != 0;) {
    for (size_t I = 0; I != Row.size() / sizeOf(Type); ++I) {
      State = State * 6364136223846793005u + 1442695040888963407u;
      float X = -2;
      for (int Part = 0; Part != 4; ++Part)
        X += float(State >> (16 * Part) & 0xffff) * 0x1p-16f;
      if (Type == DType::Float32) {
        std::memcpy(Row.data() + 4 * I, &X, 4);
        continue;
      }
      const uint16_t Half = Type == DType::Float16
                                ? halfOf(X)
                                : uint16_t(std::bit_cast<uint32_t>(X) >> 16);
      std::memcpy(Row.data() + 2 * I, &Half, 2);
    }
    const size_t Some = std::min(Left, Row.size());
    OS.write(Row.data(), Some);
    Left -= Some;
  }
  return size_t(Length) + 8;
}

/// Seconds of \p Do.
static double timed(llvm::function_ref<void()> Do) {
  const auto Begin = std::chrono::steady_clock::now();
  Do();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - Begin)
      .count();
}

/// The sum of the T at \p Data, a cut for each thread, in 128 chains.
template <class T, class Sum>
static double sumOf(const char *Data, size_t Bytes, unsigned Threads) {
  const T *X = reinterpret_cast<const T *>(Data);
  const size_t Count = Bytes / sizeof(T);
  std::vector<double> Sums(Threads);
  std::vector<std::thread> Helpers;
  for (unsigned H = 0; H != Threads; ++H)
    Helpers.emplace_back([&, H] {
      Sum Chains[128] = {};
      size_t I = Count * H / Threads / 128 * 128;
      const size_t End = Count * (H + 1) / Threads / 128 * 128;
      for (; I + 128 <= End; I += 128)
        for (size_t C = 0; C != 128; ++C)
          Chains[C] = Sum(Chains[C] + Sum(X[I + C]));
      for (Sum C : Chains)
        Sums[H] += double(C);
    });
  for (std::thread &Helper : Helpers)
    Helper.join();
  double Out = 0;
  for (double S : Sums)
    Out += S;
  return Out;
}

namespace {
/// A map of a file.
struct Map {
  explicit Map(const std::string &Path) {
    int File = open(Path.c_str(), O_RDONLY);
    Size = size_t(lseek(File, 0, SEEK_END));
    Data = static_cast<const char *>(
        mmap(nullptr, Size, PROT_READ, MAP_PRIVATE, File, 0));
    close(File);
  }
  ~Map() { munmap(const_cast<char *>(Data), Size); }
  const char *Data;
  size_t Size;
};
} // namespace

static double median(std::vector<double> Times) {
  llvm::sort(Times);
  return Times[Times.size() / 2];
}

static void report(llvm::StringRef What, size_t Bytes,
                   llvm::ArrayRef<double> Sums,
                   llvm::ArrayRef<double> Statistics) {
  const double S = median(Sums), T = median(Statistics);
  llvm::outs() << llvm::formatv(
      "{0,-22} sum {1,6:f2} GB/s, statistics {2,6:f2} GB/s, ratio {3:f2}\n",
      What, double(Bytes) / S * 1e-9, double(Bytes) / T * 1e-9, S / T);
  llvm::outs().flush();
}

/// Seconds that NumPy takes for the statistics of the first \p Bytes at
/// \p Begin; 0 if it cannot be run.
static double numpySeconds(const std::string &Python, const std::string &Path,
                           size_t Begin, size_t Bytes) {
  static const char Script[] = R"(
import sys, time
import numpy as np
x = np.memmap(sys.argv[1], np.float32, 'r', int(sys.argv[2]),
              int(sys.argv[3]) // 4)
best = 1e9
for _ in range(3):
    begin = time.perf_counter()
    nan = int(np.isnan(x).sum())
    inf = int(np.isinf(x).sum())
    finite = np.isfinite(x)
    bad = ~finite
    first = int(bad.argmax()) if bad.any() else None
    y = x[finite]
    a = np.abs(y)
    out = [nan, inf, first, float((y == 0).sum()),
           float(((a < np.finfo(np.float32).tiny) & (a > 0)).sum()),
           float((a > np.finfo(np.float32).max / 2).sum()),
           y.min(), y.max(), a.max(), y.mean(dtype=np.float64),
           y.std(dtype=np.float64),
           np.sqrt(np.square(y, dtype=np.float64).mean()),
           np.sqrt(np.square(y, dtype=np.float64).sum())]
    best = min(best, time.perf_counter() - begin)
print(best)
)";
  llvm::SmallString<128> Out;
  if (llvm::sys::fs::createTemporaryFile("culprit-bench", "txt", Out))
    return 0;
  const std::string Offset = std::to_string(Begin),
                    Length = std::to_string(Bytes);
  std::optional<llvm::StringRef> Redirects[] = {std::nullopt,
                                                llvm::StringRef(Out),
                                                std::nullopt};
  const int Status = llvm::sys::ExecuteAndWait(
      Python, {Python, "-c", Script, Path, Offset, Length}, std::nullopt,
      Redirects);
  double Seconds = 0;
  if (Status == 0)
    if (auto Text = llvm::MemoryBuffer::getFile(Out))
      Seconds = std::atof((*Text)->getBuffer().str().c_str());
  llvm::sys::fs::remove(Out);
  return Seconds;
}

static void measure(DType Type, const std::string &Path, size_t Bytes,
                    unsigned Threads, size_t Runs, const std::string &Python) {
  const size_t Begin = writeFile(Path, Type, Bytes);
  const auto Sum = [&](const Map &M) {
    const char *Data = M.Data + Begin;
    return Type == DType::Float32
               ? sumOf<float, float>(Data, Bytes, Threads)
               : sumOf<uint16_t, uint16_t>(Data, Bytes, Threads);
  };
  volatile double Sink = 0;
  std::vector<double> Sums, Statistics, FreshSums, Cases;
  const Map Whole(Path);
  const size_t Each = Bytes / NumTensors;
  for (size_t Run = 0; Run != Runs + 1; ++Run) {
    double A = timed([&] { Sink = Sum(Whole); });
    double B = timed([&] {
      for (size_t I = 0; I != NumTensors; ++I) {
        TensorView View;
        View.Type = Type;
        View.Shape = {int64_t(Each / sizeOf(Type))};
        View.Bytes = llvm::ArrayRef(
            reinterpret_cast<const uint8_t *>(Whole.Data) + Begin + I * Each,
            Each);
        Sink = statisticsOf(View, Threads).L2;
      }
    });
    double C = timed([&] { Sink = Sum(Map(Path)); });
    double D = timed([&] {
      Sink = double(llvm::cantFail(readCase({Path}, Threads))
                        .table(TableId::tensors)
                        .rows());
    });
    if (Run == 0)
      continue; // the file comes into the cache
    Sums.push_back(A);
    Statistics.push_back(B);
    FreshSums.push_back(C);
    Cases.push_back(D);
  }
  const std::string Name = toString(Type).str();
  report(Name, Bytes, Sums, Statistics);
  report(Name + ", open to table", Bytes, FreshSums, Cases);
  if (Type != DType::Float32 || Python.empty() || Python == "none")
    return;
  const size_t Slice = std::min<size_t>(Bytes, 256 << 20);
  const double Seconds = numpySeconds(Python, Path, Begin, Slice);
  if (Seconds == 0) {
    llvm::outs() << "NumPy could not be run by " << Python << "\n";
    return;
  }
  const double Rate = double(Slice) / Seconds;
  llvm::outs() << llvm::formatv(
      "{0,-22} NumPy {1:f3} GB/s, statistics {2:f0} times as fast\n", Name,
      Rate * 1e-9, double(Bytes) / median(Statistics) / Rate);
}

int main(int Argc, char **Argv) {
  const double GiB = Argc > 1 ? std::atof(Argv[1]) : 4;
  const unsigned Threads =
      Argc > 2 ? unsigned(std::atoi(Argv[2]))
               : std::max(1u, std::thread::hardware_concurrency());
  const size_t Runs = Argc > 3 ? size_t(std::atoi(Argv[3])) : 5;
  const std::string Python = Argc > 4 ? Argv[4] : "";
  // A whole number of MiB for each tensor.
  const size_t Bytes = std::max<size_t>(1, size_t(GiB * 64)) * NumTensors << 20;
  llvm::SmallString<128> Folder;
  if (llvm::sys::fs::createUniqueDirectory("culprit-bench", Folder))
    return 1;
  llvm::outs() << llvm::formatv("{0:f2} GiB, {1} threads, median of {2}\n",
                                double(Bytes) / (1 << 30), Threads, Runs);
  for (DType Type : {DType::Float32, DType::BFloat16, DType::Float16}) {
    const std::string Path = (Folder + "/a.safetensors").str();
    measure(Type, Path, Bytes, Threads, Runs, Python);
    llvm::sys::fs::remove(Path);
  }
  llvm::sys::fs::remove_directories(Folder);
  return 0;
}
