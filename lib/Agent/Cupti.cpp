//===- Cupti.cpp ------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Agent/Cupti.h"
#include "Agent/Text.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

using culprit::agent::Text;

namespace culprit::cupti {

const char *Api::text(Result Code) const {
  const char *Name = nullptr;
  if (!GetResultString || GetResultString(Code, &Name) != Success || !Name)
    return "an unknown CUPTI error";
  return Name;
}

namespace {
struct Wanted {
  const char *Name;
  char *Path;
  size_t Size;
};
} // namespace

static int look(dl_phdr_info *Info, size_t, void *Data) {
  const Wanted &W = *static_cast<const Wanted *>(Data);
  const char *Path = Info->dlpi_name;
  const char *File = strrchr(Path, '/');
  File = File ? File + 1 : Path;
  // Wheels put a hash into the name: libcupti-98c2b1e7.so.11.8.
  size_t Length = strlen(W.Name);
  if (strncmp(File, W.Name, Length) ||
      (File[Length] != '-' && strncmp(File + Length, ".so", 3)))
    return 0;
  Text(W.Path, W.Size) << Path;
  return 1;
}

bool loadedLibrary(const char *Name, char *Path, size_t Size) {
  Wanted W = {Name, Path, Size};
  return dl_iterate_phdr(look, &W) != 0;
}

static bool bind(Api &A, void *Library, const char *&Missing) {
#define CUPTI_FUNCTION(Name, Needed, Parameters)                               \
  A.Name = reinterpret_cast<decltype(A.Name)>(dlsym(Library, "cupti" #Name));  \
  if (Needed && !A.Name)                                                       \
    Missing = "cupti" #Name;
#include "Agent/CuptiApi.def"
  return !Missing;
}

static uint32_t driverVersion() {
  void *Driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  if (!Driver)
    return 0;
  int Version = 0;
  auto Get = reinterpret_cast<int (*)(int *)>(
      dlsym(Driver, "cuDriverGetVersion"));
  if (!Get || Get(&Version) != 0 || Version < 0)
    Version = 0;
  dlclose(Driver);
  return static_cast<uint32_t>(Version);
}

/// The newest CUDA, as 13000, of the NVIDIA driver of this machine, without a
/// call of CUDA; 0 when it is not known.
static uint32_t kernelDriver() {
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  ..."
  char Said[512];
  int File = ::open("/proc/driver/nvidia/version", O_RDONLY | O_CLOEXEC);
  if (File < 0)
    return 0;
  ssize_t Size = read(File, Said, sizeof(Said) - 1);
  close(File);
  Said[Size > 0 ? Size : 0] = 0;
  for (const char *Dot = Said; (Dot = strchr(Dot, '.')); ++Dot) {
    unsigned Branch = 0, Unit = 1;
    for (const char *At = Dot; At > Said && At[-1] >= '0' && At[-1] <= '9';) {
      Branch += Unit * static_cast<unsigned>(*--At - '0');
      Unit *= 10;
    }
    if (Branch >= 100)
      return Branch >= 580 ? 13000 : Branch >= 525 ? 12000 : 11000;
  }
  return 0;
}

/// Opens \p Path. What is loaded stays loaded: CUPTI does not like to go.
static void *open(const char *Path, int More, Api &A, Text &Why) {
  void *Library = dlopen(Path, RTLD_LAZY | RTLD_LOCAL | More);
  if (Library)
    Text(A.Path, sizeof(A.Path)) << Path;
  else
    Why << Path << "; ";
  return Library;
}

/// Beside the libcudart of the process, where a toolkit and the wheels of
/// PyTorch have it.
static void *besideRuntime(Api &A, Text &Why) {
  char Runtime[MaxPath];
  if (!loadedLibrary("libcudart", Runtime, sizeof(Runtime)))
    return nullptr;
  const char *Name = strrchr(Runtime, '/');
  const char *Dot = strstr(Name ? Name : Runtime, ".so.");
  char Major[8] = {};
  if (Dot)
    for (size_t I = 0; I + 1 < sizeof(Major); ++I) {
      char C = Dot[strlen(".so.") + I];
      if (C < '0' || C > '9')
        break;
      Major[I] = C;
    }
  if (char *Slash = strrchr(Runtime, '/'))
    *Slash = 0;
  static const char *const Folders[] = {
      "", "/../extras/CUPTI/lib64", "/../../cuda_cupti/lib",
      "/../../../extras/CUPTI/lib64"};
  for (const char *Folder : Folders) {
    char Path[MaxPath + 64];
    Text T(Path, sizeof(Path));
    T << Runtime << Folder << "/libcupti.so";
    if (Major[0])
      T << "." << Major;
    if (!strcmp(Major, "11"))
      T << ".8"; // What is older cannot be used.
    if (void *Library = open(Path, 0, A, Why))
      return Library;
  }
  return nullptr;
}

/// The library for this process, loaded; null when there is none, and
/// \p WhyText says what was tried. \p New is whether the process did not have
/// it.
static void *choose(Api &A, const char *Asked, bool &New, char *WhyText,
                    size_t WhySize) {
  Text Why(WhyText, WhySize);
  Why << "tried: ";
  New = false;
  char Path[MaxPath];
  if (loadedLibrary("libcupti", Path, sizeof(Path))) {
    void *Library = open(Path, RTLD_NOLOAD, A, Why);
    if (!Library)
      Text(WhyText, WhySize)
          << Path << " is in the process and cannot be opened";
    return Library;
  }
  New = true;
  // One that was asked for is used or nothing is, unless the process has one.
  if (Asked && Asked[0]) {
    void *Library = open(Asked, 0, A, Why);
    if (!Library) {
      const char *Error = dlerror();
      Text(WhyText, WhySize) << "--cupti cannot be used: "
                             << (Error ? Error : Asked);
    }
    return Library;
  }
  void *Library = besideRuntime(A, Why);
  // One that is newer than the driver does not work.
  struct Candidate {
    uint32_t Driver;
    const char *Name;
  };
  static const Candidate Candidates[] = {{13000, "libcupti.so.13"},
                                         {12000, "libcupti.so.12"},
                                         {11000, "libcupti.so.11.8"},
                                         {0, "libcupti.so"}};
  for (const Candidate &C : Candidates)
    if (!Library && (!A.Driver || A.Driver >= C.Driver))
      Library = open(C.Name, 0, A, Why);
  return Library;
}

bool load(Api &A, const char *Asked, char *WhyText, size_t WhySize) {
  A.Driver = driverVersion();
  bool New = false;
  void *Library = choose(A, Asked, New, WhyText, WhySize);
  if (!Library)
    return false;
  A.Loaded = New ? Library : nullptr;
  const char *Missing = nullptr;
  if (!bind(A, Library, Missing)) {
    Text(WhyText, WhySize) << (New && Asked && Asked[0]
                                   ? "--cupti cannot be used: "
                                   : "")
                           << A.Path << " has no " << Missing
                           << "; CUPTI 11.8 or newer is needed";
    return false;
  }
  A.GetVersion(&A.Version);
  return true;
}

void unload(Api &A) {
  if (A.Loaded)
    dlclose(A.Loaded);
  A.Loaded = nullptr;
}

bool followNvtx(void *GetExportTable, const char *Asked, bool IsActive) {
  Api A;
  A.Driver = kernelDriver();
  char Why[16];
  bool New = false;
  void *Library = choose(A, Asked, New, Why, sizeof(Why));
  if (!Library)
    return false;
  auto Version = reinterpret_cast<decltype(A.GetVersion)>(
      dlsym(Library, "cuptiGetVersion"));
  if (!Version || Version(&A.Version) != Success ||
      (A.Version == BadVersion && !IsActive))
    return false;
  // libcupti's own way in sees to it that CUPTI works before ranges come to it;
  // without that a range of a process that has no driver ends it.
  using Begin = int (*)(void *);
  if (auto Own = reinterpret_cast<Begin>(
          dlsym(Library, "InitializeInjectionNvtx2")))
    return Own(GetExportTable) != 0;
  auto Older = reinterpret_cast<Begin>(dlsym(Library, "cuptiNvtxInitialize2"));
  return IsActive && Older && Older(GetExportTable) == Success;
}

} // namespace culprit::cupti
