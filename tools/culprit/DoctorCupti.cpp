//===- DoctorCupti.cpp - The driver and CUPTI of a machine ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "DoctorChecks.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include <cerrno>
#include <climits>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace llvm;

namespace culprit {

namespace {
/// What a library says of itself, and where it lies.
struct LibraryAnswer {
  uint32_t Version;
  char Path[PATH_MAX];
};
} // namespace

/// Loads \p Library in a child and asks \p Function: libraries of other people
/// run code when they are loaded, and two CUPTIs do not belong in one process.
static LibraryAnswer ask(const std::string &Library, const char *Function) {
  LibraryAnswer Out = {};
  int Ends[2];
  if (::pipe2(Ends, O_CLOEXEC) != 0)
    return Out;
  pid_t Child = ::fork();
  if (Child == 0) {
    LibraryAnswer A = {};
    if (void *Handle = dlopen(Library.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
      // Both take a pointer to 32 bits and return 0.
      auto Get = reinterpret_cast<int (*)(uint32_t *)>(dlsym(Handle, Function));
      if (!Get || Get(&A.Version) != 0)
        A.Version = 0;
      link_map *Map = nullptr;
      if (dlinfo(Handle, RTLD_DI_LINKMAP, &Map) == 0 && Map && Map->l_name)
        strncpy(A.Path, Map->l_name, sizeof A.Path - 1);
    }
    (void)!::write(Ends[1], &A, sizeof A);
    ::_exit(0);
  }
  ::close(Ends[1]);
  pollfd P = {Ends[0], POLLIN, 0};
  if (Child > 0 && ::poll(&P, 1, 10000) > 0) {
    LibraryAnswer A = {};
    // Less than PIPE_BUF would be whole; a longer one comes in parts.
    size_t Done = 0;
    while (Done < sizeof A) {
      ssize_t N = ::read(Ends[0], reinterpret_cast<char *>(&A) + Done,
                         sizeof A - Done);
      if (N < 0 && errno == EINTR)
        continue;
      if (N <= 0)
        break;
      Done += size_t(N);
    }
    if (Done == sizeof A)
      Out = A;
  }
  ::close(Ends[0]);
  if (Child > 0) {
    ::kill(Child, SIGKILL);
    while (::waitpid(Child, nullptr, 0) < 0 && errno == EINTR)
      ;
  }
  return Out;
}

uint32_t installedDriver() {
  return ask("libcuda.so.1", "cuDriverGetVersion").Version;
}

std::string driverVersionText(uint32_t Version) {
  return (Twine(Version / 1000) + "." + Twine(Version % 1000 / 10)).str();
}

std::string cuptiVersionText(uint32_t Version) {
  if (Version >= 100000)
    return (Twine(Version / 10000) + "." + Twine(Version / 100 % 100)).str();
  if (Version >= 28)
    return "13.0";
  if (Version > 18)
    return "12.x";
  return Version == 18 ? "11.8" : "older than 11.8";
}

uint32_t leastDriver(uint32_t Cupti) {
  if (Cupti >= 100000)
    return Cupti / 10000 * 1000;
  return Cupti >= 28 ? 13000 : Cupti > 18 ? 12000 : 11000;
}

/// Files named libcupti.so* in \p Folder.
static void listFolder(const Twine &Folder, std::vector<std::string> &Out) {
  std::error_code EC;
  for (sys::fs::directory_iterator I(Folder, EC), End; !EC && I != End;
       I.increment(EC)) {
    StringRef Name = sys::path::filename(I->path());
    if (Name.starts_with("libcupti.so") || Name.starts_with("libcupti-"))
      Out.push_back(I->path());
  }
}

/// Folders in \p Folder whose name begins with \p Prefix, sorted.
static std::vector<std::string> folders(const Twine &Folder, StringRef Prefix) {
  std::vector<std::string> Out;
  std::error_code EC;
  for (sys::fs::directory_iterator I(Folder, EC), End; !EC && I != End;
       I.increment(EC))
    if (sys::path::filename(I->path()).starts_with(Prefix) &&
        sys::fs::is_directory(I->path()))
      Out.push_back(I->path());
  llvm::sort(Out);
  return Out;
}

/// Of a toolkit at \p Root.
static void listToolkit(const Twine &Root, std::vector<std::string> &Out) {
  listFolder(Root + "/extras/CUPTI/lib64", Out);
  listFolder(Root + "/lib64", Out);
}

/// Of a Python environment at \p Root: wheels have it in nvidia/*/lib.
static void listPython(const Twine &Root, std::vector<std::string> &Out) {
  for (const std::string &Python : folders(Root + "/lib", "python"))
    for (StringRef Packages : {"/site-packages", "/dist-packages"})
      for (StringRef Part : {"/nvidia/cuda_cupti/lib", "/nvidia/cu13/lib",
                             "/nvidia/cu12/lib", "/torch/lib"})
        listFolder(Python + Packages + Part, Out);
}

std::vector<CuptiCandidate> findCupti() {
  std::vector<std::string> Paths = {"libcupti.so.13", "libcupti.so.12",
                                    "libcupti.so.11.8", "libcupti.so"};
  auto Variable = [](const char *Name) {
    return sys::Process::GetEnv(Name).value_or("");
  };
  for (const char *Name : {"CUDA_HOME", "CUDA_PATH"})
    if (std::string Root = Variable(Name); !Root.empty())
      listToolkit(Root, Paths);
  for (const std::string &Root : folders("/usr/local", "cuda"))
    listToolkit(Root, Paths);
  for (const char *Name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (std::string Root = Variable(Name); !Root.empty()) {
      listPython(Root, Paths);
      listFolder(Root + "/lib", Paths);
    }
  for (StringRef Root : {"/usr", "/usr/local"})
    listPython(Root, Paths);

  std::vector<CuptiCandidate> Out;
  StringSet<> Known;
  for (const std::string &Path : Paths) {
    // A name without a folder is looked up by the loader.
    LibraryAnswer A = {};
    SmallString<256> Real;
    if (Path.front() == '/') {
      if (sys::fs::real_path(Path, Real) || Known.contains(Real))
        continue;
      A = ask(Path, "cuptiGetVersion");
    } else {
      A = ask(Path, "cuptiGetVersion");
      if (!A.Path[0] || sys::fs::real_path(A.Path, Real))
        continue;
    }
    if (Known.insert(Real).second)
      Out.push_back({A.Path[0] ? A.Path : Path, A.Version});
  }
  return Out;
}

} // namespace culprit
