//===- LinkMap.cpp - What the dynamic linker says of a process --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/LinkMap.h"
#include "Support/Error.h"

namespace culprit::attach {

/// As in <link.h>, with the field that glibc 2.35 added for namespaces made by
/// dlmopen.
struct RemoteDebug {
  int32_t Version;
  uint64_t Map;
  uint64_t Break;
  int32_t State;
  uint64_t LoaderBase;
};
struct RemoteLink {
  uint64_t Bias, Name, Dynamic, Next, Previous;
};
static constexpr unsigned MaxObjects = 65536;
static constexpr unsigned MaxNamespaces = 64;

llvm::Expected<LinkMap> LinkMap::find(const Memory &Memory,
                                      const ProcessMaps &Maps) {
  for (const Mapping *M : Maps.images(isLoaderName)) {
    llvm::Expected<ElfImage> Loader =
        ElfImage::open(Memory, M->Begin, M->name());
    if (!Loader)
      return Loader.takeError();
    if (std::optional<ElfImage::Symbol> S = Loader->find("_r_debug"))
      return LinkMap(Memory, S->Address);
  }
  return failure("the process has no dynamic linker of glibc");
}

bool LinkMap::isConsistent() const {
  uint64_t At = Address;
  for (unsigned I = 0; I < MaxNamespaces; ++I) {
    std::optional<RemoteDebug> Debug = From->get<RemoteDebug>(At);
    if (!Debug || Debug->Version < 1 || Debug->State != 0)
      return false;
    if (Debug->Version < 2)
      return true;
    std::optional<uint64_t> Next = From->get<uint64_t>(At + sizeof *Debug);
    if (!Next)
      return false;
    if (*Next == 0)
      return true;
    At = *Next;
  }
  return false;
}

std::vector<LinkMap::Object> LinkMap::objects() const {
  std::vector<Object> Objects;
  std::optional<RemoteDebug> Debug = From->get<RemoteDebug>(Address);
  if (!Debug || Debug->State != 0)
    return Objects;
  uint64_t At = Debug->Map;
  while (At != 0 && Objects.size() < MaxObjects) {
    std::optional<RemoteLink> Link = From->get<RemoteLink>(At);
    if (!Link)
      return {};
    Objects.push_back({Link->Bias, Link->Dynamic,
                       From->text(Link->Name).value_or("")});
    At = Link->Next;
  }
  return Objects;
}

std::optional<ElfImage::Symbol> LinkMap::find(llvm::StringRef Name,
                                              const ProcessMaps &Maps) const {
  for (const Object &O : objects()) {
    // The bias is not the header's address for a program that is not
    // position-independent; its dynamic section leads to the file's mapping.
    const Mapping *M = Maps.find(O.Dynamic);
    if (!M || !M->isFile())
      continue;
    const Mapping *First = M;
    while (const Mapping *Below = Maps.below(*First)) {
      if (Below->Path != M->Path)
        break;
      First = Below;
    }
    if (First->Offset != 0)
      continue;
    llvm::Expected<ElfImage> Image =
        ElfImage::open(*From, First->Begin, First->name());
    if (!Image) {
      llvm::consumeError(Image.takeError());
      continue;
    }
    if (std::optional<ElfImage::Symbol> S = Image->find(Name))
      return S;
  }
  return std::nullopt;
}

} // namespace culprit::attach
