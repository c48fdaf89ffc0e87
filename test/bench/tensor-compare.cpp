//===- tensor-compare.cpp - compare beside plain sums -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Times what `culprit compare REF OURS` does, from the opened files to the
// verdict, beside two plain vector sums over maps of the same files with the
// same threads. The goal is a ratio of at most 2. Runs alternate, so that a
// busy machine slows both; the best and the median of each are printed.
//
// usage: tensor-compare [GIB [THREADS [RUNS]]]
//
// Two safetensors files of GIB each (2) are made in the folder for temporary
// files and removed: 16 float32 tensors, equal but for rounding.
//
//===----------------------------------------------------------------------===//

#include "Compare/Tensors.h"
#include "Readers/Reader.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

using namespace culprit;

static constexpr size_t NumTensors = 16;

/// Writes a file of \p Elements floats; \p Nudge changes their last bits.
static void writeFile(const std::string &Path, size_t Elements, bool Nudge) {
  std::error_code EC;
  llvm::raw_fd_ostream OS(Path, EC);
  const size_t Each = Elements / NumTensors;
  std::string Header = "{";
  for (size_t I = 0; I != NumTensors; ++I)
    Header += (I ? "," : "") + ("\"layers." + std::to_string(I)) +
              ".mlp.output\":{\"dtype\":\"F32\",\"shape\":[" +
              std::to_string(Each / 1024) + ",1024],\"data_offsets\":[" +
              std::to_string(I * Each * 4) + "," +
              std::to_string((I + 1) * Each * 4) + "]}";
  Header += "}";
  Header.resize((Header.size() + 7) / 8 * 8, ' ');
  const uint64_t Length = Header.size();
  OS.write(reinterpret_cast<const char *>(&Length), 8);
  OS << Header;
  std::vector<float> Row(1 << 20);
  uint64_t State = 1;
  for (size_t Left = Elements; Left != 0; Left -= Row.size()) {
    for (float &X : Row) {
      State = State * 6364136223846793005u + 1442695040888963407u;
      X = float(int32_t(State >> 32)) * 0x1p-31f;
      if (Nudge)
        X *= 1 + 0x1p-23f;
    }
    OS.write(reinterpret_cast<const char *>(Row.data()), Row.size() * 4);
  }
}

/// Seconds of \p Do.
static double timed(llvm::function_ref<void()> Do) {
  const auto Begin = std::chrono::steady_clock::now();
  Do();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - Begin)
      .count();
}

/// The sum of all floats of the file at \p Path, in sixteen chains a thread.
static double sumOf(const std::string &Path, unsigned Threads) {
  int File = open(Path.c_str(), O_RDONLY);
  const size_t Size = size_t(lseek(File, 0, SEEK_END));
  void *Map = mmap(nullptr, Size, PROT_READ, MAP_PRIVATE, File, 0);
  close(File);
  const float *X = static_cast<const float *>(Map);
  const size_t Count = Size / 4;
  std::vector<double> Sums(Threads);
  std::vector<std::thread> Helpers;
  for (unsigned T = 0; T != Threads; ++T)
    Helpers.emplace_back([&, T] {
      float Chains[64] = {};
      size_t I = Count * T / Threads;
      const size_t End = Count * (T + 1) / Threads;
      for (; I + 64 <= End; I += 64)
        for (size_t C = 0; C != 64; ++C)
          Chains[C] += X[I + C];
      for (float C : Chains)
        Sums[T] += double(C);
    });
  double Sum = 0;
  for (unsigned T = 0; T != Threads; ++T) {
    Helpers[T].join();
    Sum += Sums[T];
  }
  munmap(Map, Size);
  return Sum;
}

static size_t compareFiles(const std::string &A, const std::string &B,
                           unsigned Threads) {
  std::optional<llvm::Expected<Case>> Read[2];
  std::thread Other([&] {
    Read[1].emplace(readCase({B}, Threads, TensorDetail::Values));
  });
  Read[0].emplace(readCase({A}, Threads, TensorDetail::Values));
  Other.join();
  TensorOptions Options;
  Options.Threads = Threads;
  return llvm::cantFail(compareTensors(**Read[0], A, **Read[1], B, Options))
      .count(CompareVerdict::WithinNoise);
}

int main(int Argc, char **Argv) {
  const double GiB = Argc > 1 ? std::atof(Argv[1]) : 2;
  const unsigned Threads =
      Argc > 2 ? unsigned(std::atoi(Argv[2]))
               : std::max(1u, std::thread::hardware_concurrency());
  const size_t Runs = Argc > 3 ? size_t(std::atoi(Argv[3])) : 7;
  const size_t Elements = size_t(GiB * 16) << 24;
  llvm::SmallString<128> Folder;
  if (llvm::sys::fs::createUniqueDirectory("culprit-bench", Folder))
    return 1;
  const std::string A = (Folder + "/a.safetensors").str();
  const std::string B = (Folder + "/b.safetensors").str();
  writeFile(A, Elements, false);
  writeFile(B, Elements, true);

  std::vector<double> Sums, Compares;
  volatile double Sink = 0;
  size_t Within = 0;
  for (size_t Run = 0; Run != Runs + 1; ++Run) {
    double S = timed([&] { Sink = sumOf(A, Threads) + sumOf(B, Threads); });
    double C = timed([&] { Within = compareFiles(A, B, Threads); });
    if (Run == 0)
      continue; // files come into the cache
    Sums.push_back(S);
    Compares.push_back(C);
  }
  llvm::sort(Sums);
  llvm::sort(Compares);
  llvm::outs() << llvm::formatv(
      "{0} GiB twice, {1} threads, {2} tensors within noise\n"
      "sums     best {3:f3} s, median {4:f3} s\n"
      "compare  best {5:f3} s, median {6:f3} s\n"
      "ratio    best {7:f2}, median {8:f2}\n",
      GiB, Threads, Within, Sums.front(), Sums[Runs / 2], Compares.front(),
      Compares[Runs / 2], Compares.front() / Sums.front(),
      Compares[Runs / 2] / Sums[Runs / 2]);
  llvm::sys::fs::remove_directories(Folder);
  return 0;
}
