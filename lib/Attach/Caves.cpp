//===- Caves.cpp - Unused bytes in a process --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/Caves.h"
#include "Attach/RemoteCall.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <unistd.h>

namespace culprit::attach {

namespace {
struct Range {
  uint64_t Begin, End;
};
} // namespace

static bool isLibmName(llvm::StringRef Name) {
  return Name == "libm.so.6" ||
         (Name.starts_with("libm-2.") && Name.ends_with(".so"));
}

/// The ends of the segments of the images at \p Starts, from the last byte of
/// the segment to the end of its page.
static std::vector<Range> tails(const Memory &Memory, const ProcessMaps &Maps,
                                llvm::ArrayRef<const Mapping *> Starts,
                                bool Code) {
  const uint64_t Page = uint64_t(::sysconf(_SC_PAGESIZE));
  std::vector<Range> Found;
  for (const Mapping *Start : Starts) {
    llvm::Expected<ElfImage> Image =
        ElfImage::open(Memory, Start->Begin, Start->name());
    if (!Image) {
      llvm::consumeError(Image.takeError());
      continue;
    }
    for (const ElfImage::Segment &S : Image->segments()) {
      if (Code ? !S.Executable || S.Writable : !S.Writable)
        continue;
      const Mapping *M = Maps.find(S.End - 1);
      if (!M || (Code ? !M->Executable : !M->Writable))
        continue;
      Range R = {llvm::alignTo(S.End, 16), llvm::alignTo(S.End, Page)};
      if (R.Begin < R.End && R.End <= M->End)
        Found.push_back(R);
    }
  }
  return Found;
}

std::optional<CodeCave> findCodeCave(const Memory &Memory,
                                     const ProcessMaps &Maps,
                                     llvm::ArrayRef<uint8_t> Code) {
  std::vector<const Mapping *> Starts;
  for (auto Is : {isLibcName, isLibpthreadName, isLoaderName, isLibdlName,
                  isLibmName})
    llvm::append_range(Starts, Maps.images(Is));
  std::optional<CodeCave> Empty;
  for (const Range &R : tails(Memory, Maps, Starts, /*Code=*/true)) {
    std::vector<uint8_t> Bytes(R.End - R.Begin);
    if (!Memory.read(R.Begin, Bytes.data(), Bytes.size()))
      continue;
    for (size_t At = 0; At + Code.size() <= Bytes.size();
         At += llvm::alignTo(Code.size(), 16)) {
      llvm::ArrayRef<uint8_t> Here(Bytes.data() + At, Code.size());
      if (Here == Code)
        return CodeCave{R.Begin + At, true};
      // A writer that was killed leaves a beginning; nobody runs it.
      size_t Same = 0;
      while (Here[Same] == Code[Same])
        ++Same;
      if (!Empty && llvm::all_of(Here.drop_front(Same),
                                 [](uint8_t B) { return B == 0; }))
        Empty = CodeCave{R.Begin + At, false};
    }
  }
  return Empty;
}

std::optional<uint64_t> findResultsCave(const Memory &Memory,
                                        const ProcessMaps &Maps) {
  // Not the dynamic linker's, which allocates from its own end before there is
  // a libc, nor the executable's, next to which the heap begins.
  std::vector<const Mapping *> Starts;
  for (auto Is : {isLibcName, isLibpthreadName, isLibdlName, isLibmName})
    llvm::append_range(Starts, Maps.images(Is));
  for (const Range &R : tails(Memory, Maps, Starts, /*Code=*/false)) {
    CallResults Here;
    if (R.End - R.Begin < sizeof Here ||
        !Memory.read(R.Begin, &Here, sizeof Here))
      continue;
    if (Here.Magic == ResultsMagic)
      return R.Begin;
    const auto *Bytes = reinterpret_cast<const uint8_t *>(&Here);
    if (std::all_of(Bytes, Bytes + sizeof Here,
                    [](uint8_t B) { return B == 0; }))
      return R.Begin;
  }
  return std::nullopt;
}

} // namespace culprit::attach
