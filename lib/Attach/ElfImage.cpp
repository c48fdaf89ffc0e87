//===- ElfImage.cpp - A library as it lies in a process ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/ElfImage.h"
#include "Support/Error.h"
#include "llvm/BinaryFormat/ELF.h"
#include <algorithm>
#include <cstring>

using namespace llvm::ELF;

namespace culprit::attach {

/// More than any real file has; a bound for what is read from foreign memory.
static constexpr unsigned MaxSegments = 256;
static constexpr unsigned MaxDynamic = 1024;
static constexpr unsigned MaxChain = 1u << 20;

llvm::Expected<ElfImage> ElfImage::open(const Memory &Memory, uint64_t Base,
                                        llvm::StringRef Name) {
  std::optional<Elf64_Ehdr> Header = Memory.get<Elf64_Ehdr>(Base);
  if (!Header)
    return failure(Name + ": its header cannot be read from the process");
  if (memcmp(Header->e_ident, ElfMagic, 4) != 0 ||
      Header->e_ident[EI_CLASS] != ELFCLASS64 ||
      Header->e_ident[EI_DATA] != ELFDATA2LSB ||
      Header->e_phentsize != sizeof(Elf64_Phdr) ||
      Header->e_phnum > MaxSegments)
    return failure(Name + ": not a 64-bit little-endian ELF file in memory");
  std::vector<Elf64_Phdr> Headers(Header->e_phnum);
  if (!Memory.read(Base + Header->e_phoff, Headers.data(),
                   Headers.size() * sizeof(Elf64_Phdr)))
    return failure(Name + ": its program headers cannot be read");

  ElfImage Image(Memory);
  Image.Machine = Header->e_machine;
  Image.Type = Header->e_type;
  // The segment of file offset 0 is the one mapped at Base.
  bool Found = false;
  for (const Elf64_Phdr &P : Headers)
    if (P.p_type == PT_LOAD && P.p_offset == 0 && !Found) {
      Image.Bias = Base - P.p_vaddr;
      Found = true;
    }
  if (!Found)
    return failure(Name + ": no segment holds its header");
  uint64_t DynamicSize = 0;
  for (const Elf64_Phdr &P : Headers) {
    uint64_t Begin = Image.Bias + P.p_vaddr;
    if (P.p_type == PT_LOAD) {
      Image.Segments.push_back({Begin, Begin + P.p_memsz, Begin + P.p_filesz,
                                (P.p_flags & PF_W) != 0,
                                (P.p_flags & PF_X) != 0});
    } else if (P.p_type == PT_DYNAMIC) {
      Image.Dynamic = Begin;
      DynamicSize = P.p_memsz;
    } else if (P.p_type == PT_INTERP) {
      if (std::optional<std::string> Text = Memory.text(Begin))
        Image.Interpreter = *Text;
    }
  }
  if (Image.Dynamic)
    Image.readDynamic(DynamicSize);
  return Image;
}

bool ElfImage::contains(uint64_t Address) const {
  return std::any_of(Segments.begin(), Segments.end(),
                     [&](const Segment &S) {
                       return S.Begin <= Address && Address < S.End;
                     });
}

void ElfImage::readDynamic(uint64_t Size) {
  // glibc adds the bias to these entries in place, other linkers and read-only
  // dynamic sections do not: an address inside the image is one already.
  auto Place = [&](uint64_t Value) {
    return contains(Value) ? Value : Bias + Value;
  };
  uint64_t Count = std::min<uint64_t>(Size / sizeof(Elf64_Dyn), MaxDynamic);
  for (uint64_t I = 0; I < Count; ++I) {
    std::optional<Elf64_Dyn> D =
        From->get<Elf64_Dyn>(Dynamic + I * sizeof(Elf64_Dyn));
    if (!D || D->d_tag == DT_NULL)
      return;
    switch (D->d_tag) {
    case DT_SYMTAB:
      Symbols = Place(D->d_un.d_ptr);
      break;
    case DT_STRTAB:
      Strings = Place(D->d_un.d_ptr);
      break;
    case DT_STRSZ:
      StringsSize = D->d_un.d_val;
      break;
    case DT_GNU_HASH:
      GnuHash = Place(D->d_un.d_ptr);
      break;
    case DT_HASH:
      SysvHash = Place(D->d_un.d_ptr);
      break;
    case DT_DEBUG:
      DebugAddress = D->d_un.d_ptr;
      break;
    default:
      break;
    }
  }
}

std::optional<ElfImage::Symbol>
ElfImage::symbolAt(uint64_t Index, llvm::StringRef Name) const {
  std::optional<Elf64_Sym> S =
      From->get<Elf64_Sym>(Symbols + Index * sizeof(Elf64_Sym));
  if (!S || S->st_shndx == SHN_UNDEF || S->st_name >= StringsSize)
    return std::nullopt;
  // One byte more than the name: its end.
  std::string Text(Name.size() + 1, '\1');
  if (!From->read(Strings + S->st_name, Text.data(), Text.size()) ||
      Text.back() != '\0' || Name != llvm::StringRef(Text).drop_back())
    return std::nullopt;
  unsigned char Type = S->getType();
  // Thread-local symbols have no address; a resolver's is not the function's.
  if (Type == STT_TLS || Type == STT_GNU_IFUNC)
    return std::nullopt;
  return Symbol{Bias + S->st_value, S->st_size, Type};
}

std::optional<ElfImage::Symbol>
ElfImage::findByGnuHash(llvm::StringRef Name) const {
  struct {
    uint32_t Buckets, First, BloomWords, Shift;
  } Head;
  if (!From->read(GnuHash, &Head, sizeof Head) || Head.Buckets == 0)
    return std::nullopt;
  uint32_t Hash = 5381;
  for (char C : Name)
    Hash = Hash * 33 + static_cast<unsigned char>(C);
  uint64_t Buckets = GnuHash + sizeof Head + uint64_t(Head.BloomWords) * 8;
  uint64_t Chains = Buckets + uint64_t(Head.Buckets) * 4;
  std::optional<uint32_t> Index =
      From->get<uint32_t>(Buckets + uint64_t(Hash % Head.Buckets) * 4);
  if (!Index || *Index < Head.First)
    return std::nullopt;
  for (uint64_t I = *Index; I - *Index < MaxChain; ++I) {
    std::optional<uint32_t> Entry =
        From->get<uint32_t>(Chains + (I - Head.First) * 4);
    if (!Entry)
      return std::nullopt;
    if ((*Entry | 1) == (Hash | 1))
      if (std::optional<Symbol> S = symbolAt(I, Name))
        return S;
    if (*Entry & 1)
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<ElfImage::Symbol>
ElfImage::findBySysvHash(llvm::StringRef Name) const {
  uint32_t Head[2]; // Buckets, chains.
  if (!From->read(SysvHash, Head, sizeof Head) || Head[0] == 0)
    return std::nullopt;
  uint32_t Hash = 0;
  for (char C : Name) {
    Hash = (Hash << 4) + static_cast<unsigned char>(C);
    uint32_t High = Hash & 0xf0000000;
    Hash = (Hash ^ (High >> 24)) & ~High;
  }
  uint64_t Buckets = SysvHash + sizeof Head;
  uint64_t Chains = Buckets + uint64_t(Head[0]) * 4;
  std::optional<uint32_t> Index =
      From->get<uint32_t>(Buckets + uint64_t(Hash % Head[0]) * 4);
  for (unsigned Steps = 0; Index && *Index && Steps < MaxChain; ++Steps) {
    if (std::optional<Symbol> S = symbolAt(*Index, Name))
      return S;
    if (*Index >= Head[1])
      return std::nullopt;
    Index = From->get<uint32_t>(Chains + uint64_t(*Index) * 4);
  }
  return std::nullopt;
}

std::optional<ElfImage::Symbol> ElfImage::find(llvm::StringRef Name) const {
  if (!Symbols || !Strings)
    return std::nullopt;
  if (GnuHash)
    return findByGnuHash(Name);
  if (SysvHash)
    return findBySysvHash(Name);
  return std::nullopt;
}

} // namespace culprit::attach
