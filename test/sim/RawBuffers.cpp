//===- RawBuffers.cpp - What saved buffers decode to ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// usage: raw-buffers LIBCUPTI FILE
///
/// Prints the records of a file that CULPRIT_RAW_BUFFERS made, one a line, as
/// the agent decodes them: the kind, then its fields. LIBCUPTI steps from one
/// to the next and gives the names of calls; a simulated one takes the version
/// of the file. Exit 1 when a record cannot be stepped over.
///
//===----------------------------------------------------------------------===//

#include "Agent/Cupti.h"
#include "Capture/Decode.h"
#include "Capture/SchemaText.h"
#include "RawFile.h"
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>

using namespace culprit;
using namespace culprit::capture;

namespace {
/// Gives texts ids, from 1 on.
struct Texts {
  const cupti::Api &A;
  const RawBuffer *Of = nullptr;
  std::vector<std::string> All = {""};

  uint32_t add(std::string Text) {
    All.push_back(std::move(Text));
    return uint32_t(All.size() - 1);
  }
  static uint32_t text(void *Self, const char *Address) {
    Texts &T = *static_cast<Texts *>(Self);
    auto It = T.Of->Texts.find(reinterpret_cast<uintptr_t>(Address));
    return T.add(It == T.Of->Texts.end() ? "<not saved>" : It->second);
  }
  static uint32_t call(void *Self, uint32_t Domain, uint32_t Id) {
    Texts &T = *static_cast<Texts *>(Self);
    const char *Name = nullptr;
    return T.A.GetCallbackName(int(Domain), Id, &Name) ? 0 : T.add(Name);
  }
  static uint32_t shape(void *Self, const void *Record, size_t Stride) {
    LaunchShape S;
    decodeShape(Record, Stride, S);
    std::string Text;
#define CAPTURE_SHAPE(Name, Type, Offset, Wide)                                \
  if (S.Name)                                                                  \
    Text += std::string(Text.empty() ? "" : " ") + #Name + "=" +               \
            std::to_string(S.Name);
#include "Capture/Records.def"
    return static_cast<Texts *>(Self)->add(Text);
  }
};
} // namespace

template <typename T> static T at(const uint8_t *Record, size_t Offset) {
  T Value;
  std::memcpy(&Value, Record + Offset, sizeof(Value));
  return Value;
}

static std::string value(const uint8_t *Record, const SchemaField &F,
                         const Texts &T) {
  switch (F.Type) {
  case FieldType::U8:
    return std::to_string(at<uint8_t>(Record, F.Offset));
  case FieldType::U16:
    return std::to_string(at<uint16_t>(Record, F.Offset));
  case FieldType::U32:
    return std::to_string(at<uint32_t>(Record, F.Offset));
  case FieldType::U64:
    return std::to_string(at<uint64_t>(Record, F.Offset));
  case FieldType::I32:
    return std::to_string(at<int32_t>(Record, F.Offset));
  case FieldType::I64:
    return std::to_string(at<int64_t>(Record, F.Offset));
  case FieldType::F64:
    return std::to_string(at<double>(Record, F.Offset));
  case FieldType::String:
    return '"' + T.All[at<uint32_t>(Record, F.Offset)] + '"';
  }
  return "";
}

static void print(const uint8_t *From, size_t Stride, Texts &T) {
  Namer Names = {Texts::text, Texts::call, Texts::shape, &T};
  alignas(8) uint8_t Record[MaxRecordSize];
  RecordKind Kind = decode(From, Stride, Names, Record);
  SchemaText Schema;
  if (Kind == RecordKind(0) || !schemaText(Kind, Schema)) {
    std::printf("activity %u, %zu bytes\n", at<uint32_t>(From, 0), Stride);
    return;
  }
  std::printf("%s", Schema.Head.Name);
  for (uint32_t I = 0; I < Schema.Head.Fields; ++I)
    std::printf(" %s=%s", Schema.Fields[I].Name,
                value(Record, Schema.Fields[I], T).c_str());
  std::printf("\n");
}

int main(int Count, char **Arguments) {
  RawFile File;
  if (Count != 3 || !readRaw(Arguments[2], File)) {
    std::fprintf(stderr, Count == 3 ? "raw-buffers: %s holds no saved buffers\n"
                                    : "usage: raw-buffers LIBCUPTI FILE\n",
                 Count == 3 ? Arguments[2] : "");
    return 2;
  }
  setenv("SIMCUPTI_VERSION", std::to_string(File.Head.Cupti).c_str(), 1);
  void *Library = dlopen(Arguments[1], RTLD_NOW);
  if (!Library) {
    std::fprintf(stderr, "raw-buffers: %s\n", dlerror());
    return 2;
  }
  cupti::Api A;
#define CUPTI_FUNCTION(Name, Needed, Parameters)                               \
  A.Name = reinterpret_cast<decltype(A.Name)>(dlsym(Library, "cupti" #Name));
#include "Agent/CuptiApi.def"
  std::printf("cupti %u driver %u buffers %zu\n", File.Head.Cupti,
              File.Head.Driver, File.Buffers.size());
  Texts T{A};
  for (RawBuffer &B : File.Buffers) {
    T.Of = &B;
    uint8_t *Begin = reinterpret_cast<uint8_t *>(B.Words.data());
    void *Next = nullptr;
    cupti::Result R = A.ActivityGetNextRecord(Begin, B.Bytes, &Next);
    while (R == cupti::Success) {
      const uint8_t *At = static_cast<uint8_t *>(Next);
      R = A.ActivityGetNextRecord(Begin, B.Bytes, &Next);
      const uint8_t *End = R == cupti::Success ? static_cast<uint8_t *>(Next)
                                               : Begin + B.Bytes;
      print(At, size_t(End - At), T);
    }
    if (R != cupti::MaxLimitReached) {
      std::fprintf(stderr, "raw-buffers: a record cannot be stepped over: %d\n",
                   R);
      return 1;
    }
  }
  return 0;
}
