//===- ElfImageTest.cpp - Libraries as they lie in memory -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/Caves.h"
#include "Attach/LinkMap.h"
#include "Attach/RemoteCall.h"
#include "gtest/gtest.h"
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

using namespace culprit;
using namespace culprit::attach;

/// Our own process: the dynamic linker says what is right.
class OwnImage : public testing::Test {
protected:
  OwnImage() : Memory(getpid()) {
    Maps = cantFail(ProcessMaps::read(getpid()));
    Libc = Maps.images(isLibcName).at(0);
  }
  ProcessMemory Memory;
  ProcessMaps Maps;
  const Mapping *Libc;
};

TEST_F(OwnImage, SymbolsAreThoseOfDlsym) {
  ElfImage Image = cantFail(ElfImage::open(Memory, Libc->Begin, "libc"));
  void *Handle = dlopen("libc.so.6", RTLD_NOW);
  for (const char *Name : {"malloc", "getpid", "__errno_location", "poll",
                           "pthread_create", "fopen"}) {
    std::optional<ElfImage::Symbol> S = Image.find(Name);
    ASSERT_TRUE(S) << Name;
    EXPECT_EQ(S->Address, uint64_t(dlsym(Handle, Name))) << Name;
  }
  EXPECT_FALSE(Image.find("no_such_function"));
  EXPECT_FALSE(Image.find(""));
  EXPECT_TRUE(Image.contains(uint64_t(dlsym(Handle, "poll"))));
  dlclose(Handle);
}

TEST_F(OwnImage, LinkMapIsThatOfTheLinker) {
  LinkMap Links = cantFail(LinkMap::find(Memory, Maps));
  // This program has a copy of _r_debug by its relocation; the list is one.
  EXPECT_EQ(Memory.get<r_debug>(Links.address())->r_map, _r_debug.r_map);
  EXPECT_TRUE(Links.isConsistent());
  std::vector<LinkMap::Object> Objects = Links.objects();
  size_t Count = 0;
  for (link_map *L = _r_debug.r_map; L; L = L->l_next)
    ++Count;
  EXPECT_EQ(Objects.size(), Count);
  std::optional<ElfImage::Symbol> S = Links.find("getpid", Maps);
  ASSERT_TRUE(S);
  EXPECT_EQ(S->Address, uint64_t(dlsym(RTLD_DEFAULT, "getpid")));
}

TEST_F(OwnImage, CavesAreUnusedBytes) {
  std::vector<uint8_t> Code(64, 0x90);
  std::optional<CodeCave> Cave = findCodeCave(Memory, Maps, Code);
  ASSERT_TRUE(Cave);
  EXPECT_FALSE(Cave->Written);
  const Mapping *M = Maps.find(Cave->Address);
  ASSERT_TRUE(M);
  EXPECT_TRUE(M->Executable);
  EXPECT_LE(Cave->Address + Code.size(), M->End);
  for (size_t I = 0; I < Code.size(); ++I)
    EXPECT_EQ(reinterpret_cast<uint8_t *>(Cave->Address)[I], 0);
  std::optional<uint64_t> Results = findResultsCave(Memory, Maps);
  ASSERT_TRUE(Results);
  M = Maps.find(*Results);
  ASSERT_TRUE(M);
  EXPECT_TRUE(M->Writable);
  // More than a page cannot be had.
  EXPECT_FALSE(findCodeCave(Memory, Maps, std::vector<uint8_t>(8192, 0x90)));
}

/// A copy of libc's first megabyte, damaged at one place after the other.
TEST_F(OwnImage, DamagedImagesEndInErrorsOrNothing) {
  ElfImage Whole = cantFail(ElfImage::open(Memory, Libc->Begin, "libc"));
  uint64_t End = 0;
  for (const ElfImage::Segment &S : Whole.segments())
    End = std::max(End, S.End);
  std::vector<uint8_t> Bytes(End - Libc->Begin);
  for (const ElfImage::Segment &S : Whole.segments())
    Memory.read(S.Begin, Bytes.data() + (S.Begin - Libc->Begin),
                S.End - S.Begin);
  BufferMemory Copy(Libc->Begin, Bytes);
  ASSERT_TRUE(cantFail(ElfImage::open(Copy, Libc->Begin, "copy")).find("poll"));
  for (size_t At = 0; At < 1024; ++At) {
    uint8_t Before = Bytes[At];
    for (uint8_t Value : {uint8_t(0xff), uint8_t(Before + 1), uint8_t(0)}) {
      Bytes[At] = Value;
      llvm::Expected<ElfImage> Image =
          ElfImage::open(Copy, Libc->Begin, "damaged");
      if (Image)
        Image->find("poll");
      else
        llvm::consumeError(Image.takeError());
    }
    Bytes[At] = Before;
  }
  for (size_t Size = 0; Size < 4096; Size += 7) {
    BufferMemory Short(Libc->Begin,
                       llvm::ArrayRef<uint8_t>(Bytes).take_front(Size));
    llvm::Expected<ElfImage> Image =
        ElfImage::open(Short, Libc->Begin, "short");
    if (Image)
      EXPECT_FALSE(Image->find("poll"));
    else
      llvm::consumeError(Image.takeError());
  }
}

TEST(LinkMapTest, ChangesAreSeenInEveryNamespace) {
  struct Debug {
    int32_t Version, Pad;
    uint64_t Map, Break;
    int32_t State, Pad2;
    uint64_t Base, Next;
  } Two[2] = {{2, 0, 0, 0, 0, 0, 0, 0x1000 + sizeof(Debug)},
              {2, 0, 0, 0, 0, 0, 0, 0}};
  std::vector<uint8_t> Bytes(sizeof Two);
  auto Ask = [&] {
    memcpy(Bytes.data(), Two, sizeof Two);
    BufferMemory Memory(0x1000, Bytes);
    return LinkMap(Memory, 0x1000).isConsistent();
  };
  EXPECT_TRUE(Ask());
  Two[1].State = 1; // RT_ADD in a namespace of dlmopen.
  EXPECT_FALSE(Ask());
  Two[0].Version = 1; // The old form has no second.
  EXPECT_TRUE(Ask());
  Two[0].State = 2;
  EXPECT_FALSE(Ask());
  Two[0] = {2, 0, 0, 0, 0, 0, 0, 0x1000}; // Leads to itself: must end.
  EXPECT_FALSE(Ask());
}

TEST(MemoryTest, TextsEndBeforeUnreadablePages) {
  std::vector<uint8_t> Bytes(300, 'a');
  BufferMemory Memory(0x1000, Bytes);
  EXPECT_FALSE(Memory.text(0x1000));
  Bytes[299] = 0;
  EXPECT_EQ(Memory.text(0x1000 + 290).value_or(""), "");
  Bytes.resize(512, 0);
  BufferMemory Longer(0x1000, Bytes);
  EXPECT_EQ(Longer.text(0x1000 + 290).value_or("").size(), 9u);
  EXPECT_FALSE(Longer.text(0x1000, 100));
  EXPECT_FALSE(Longer.text(0x500));
}
