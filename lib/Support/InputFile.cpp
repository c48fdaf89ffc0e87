//===- InputFile.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Files are opened for each operation and closed after it: a case may hold
// thousands of mapped tensor dumps, and a map needs no descriptor.
//
//===----------------------------------------------------------------------===//

#include "Support/InputFile.h"
#include "Support/Decompress.h"
#include "Support/Error.h"
#include "Support/Units.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

using namespace llvm;

namespace culprit {

/// Readable bytes promised after the end of contents().
static constexpr size_t Padding = 64;

/// Pages that hold the content, of a file or anonymous.
struct InputFile::Storage {
  char *Base = nullptr;
  size_t Bytes = 0; ///< Mapped, a multiple of the page size.
  size_t Size = 0;  ///< Of the content.

  ~Storage() {
    if (Base)
      ::munmap(Base, Bytes);
  }
  /// Maps \p Wanted anonymous zero bytes or more.
  bool reserve(size_t Wanted);
  /// Grows an anonymous map, moving its pages and not its bytes.
  bool grow(size_t Wanted);
};

static size_t roundToPages(size_t Bytes) {
  static const size_t Page = ::sysconf(_SC_PAGESIZE);
  return alignTo(std::max<size_t>(Bytes, 1), Page);
}

bool InputFile::Storage::reserve(size_t Wanted) {
  size_t Rounded = roundToPages(Wanted);
  void *At = ::mmap(nullptr, Rounded, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (At == MAP_FAILED)
    return false;
  Base = static_cast<char *>(At);
  Bytes = Rounded;
  return true;
}

bool InputFile::Storage::grow(size_t Wanted) {
  size_t Rounded = roundToPages(Wanted);
  void *At = ::mremap(Base, Bytes, Rounded, MREMAP_MAYMOVE);
  if (At == MAP_FAILED)
    return false;
  Base = static_cast<char *>(At);
  Bytes = Rounded;
  return true;
}

/// Opens \p Path for reading; only a regular file will do. O_NONBLOCK keeps a
/// pipe without a writer from hanging the program.
static Expected<int> openRegular(const std::string &Path, uint64_t &Size) {
  int Fd = ::open(Path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (Fd < 0)
    return failure(Path + ": cannot be opened: " + std::strerror(errno),
                   errno == EACCES ? "check its permissions" : "");
  struct stat Status;
  if (::fstat(Fd, &Status) != 0) {
    int Cause = errno;
    ::close(Fd);
    return failure(Path + ": cannot be read: " + std::strerror(Cause));
  }
  if (S_ISREG(Status.st_mode)) {
    Size = Status.st_size;
    return Fd;
  }
  ::close(Fd);
  if (S_ISDIR(Status.st_mode))
    return failure(Path + ": is a folder, not a file", "give the files in it");
  return failure(Path + ": is not a regular file but a pipe, socket or device",
                 "save what it gives to a file first");
}

/// Memory that the program may use at most.
static uint64_t usableMemory() {
  uint64_t Bytes = uint64_t(::sysconf(_SC_PHYS_PAGES)) *
                   uint64_t(::sysconf(_SC_PAGESIZE));
  for (const char *Group : {"/sys/fs/cgroup/memory.max",
                            "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    ErrorOr<std::unique_ptr<MemoryBuffer>> Text =
        MemoryBuffer::getFileAsStream(Group);
    uint64_t Limit;
    if (Text && !(*Text)->getBuffer().trim().getAsInteger(10, Limit))
      Bytes = std::min(Bytes, Limit);
  }
  return Bytes;
}

InputFile::Limits InputFile::defaultLimits() {
  static const uint64_t Memory = usableMemory();
  return {Memory / 2, Memory};
}

/// What truncation() says of a file that became larger than \p Limit bytes.
static std::string overLimit(uint64_t Limit) {
  return "becomes larger than " + formatBytes(Limit) +
         " when decompressed, the limit on this machine";
}

/// Deflate cannot exceed 1032:1, so a claim beyond that is a lie; without a
/// claim, logs and traces shrink about 8 to 1.
static uint64_t likelySize(Compression Kind, int Fd, uint64_t DiskSize) {
  if (Kind == Compression::None)
    return DiskSize;
  uint64_t Claim = claimedSize(Kind, Fd, DiskSize);
  return Claim == 0 || Claim / 1000 > DiskSize ? 8 * DiskSize : Claim;
}

Expected<std::unique_ptr<InputFile>> InputFile::open(StringRef Path) {
  std::unique_ptr<InputFile> File(new InputFile);
  File->Path = Path.str();
  Expected<int> Fd = openRegular(File->Path, File->DiskSize);
  if (!Fd)
    return Fd.takeError();
  auto Close = make_scope_exit([&] { ::close(*Fd); });

  char Start[4] = {};
  ssize_t Got = ::pread(*Fd, Start, sizeof(Start), 0);
  if (Got < 0)
    return failure(Path + ": cannot be read: " + std::strerror(errno));
  File->Kind = detectCompression(StringRef(Start, Got));
  File->LikelySize = std::min(likelySize(File->Kind, *Fd, File->DiskSize),
                              File->Bounds.Held);
  std::unique_ptr<Decoder> Bytes = makeDecoder(File->Kind, *Fd);
  File->Head.resize(HeadBytes);
  File->Head.resize(Bytes->read(File->Head.data(), HeadBytes));
  if (File->Head.empty() && !Bytes->Broken.empty())
    return failure(Path + ": " + Bytes->Broken,
                   "nothing in it can be read; copy the file again");
  return File;
}

InputFile::~InputFile() = default;

Expected<StringRef> InputFile::contents() {
  if (Content)
    return StringRef(Content->Base, Content->Size);
  uint64_t Size = 0;
  Expected<int> Fd = openRegular(Path, Size);
  if (!Fd)
    return Fd.takeError();
  auto Close = make_scope_exit([&] { ::close(*Fd); });
  auto Made = std::make_unique<Storage>();
  auto OutOfMemory = [&] {
    return failure(Path + ": does not fit into memory");
  };

  // A small file is read, which is cheaper than mapping it. A large one is
  // laid over an anonymous map that is one page longer, so that reading past
  // the end of a file that fills its last page stays legal.
  static constexpr uint64_t MapFrom = 256 * 1024;
  if (Kind == Compression::None && Size >= MapFrom) {
    if (!Made->reserve(Size + Padding + roundToPages(1)))
      return OutOfMemory();
    if (::mmap(Made->Base, Size, PROT_READ, MAP_PRIVATE | MAP_FIXED, *Fd, 0) ==
        MAP_FAILED)
      return failure(Path + ": cannot be mapped: " + std::strerror(errno));
    Made->Size = Size;
    Content = std::move(Made);
    return StringRef(Content->Base, Content->Size);
  }

  // Untouched pages cost nothing.
  uint64_t Claim = likelySize(Kind, *Fd, Size);
  if (!Made->reserve(Claim + Padding + 1) && !Made->reserve(Size + Padding + 1))
    return OutOfMemory();
  std::unique_ptr<Decoder> Bytes = makeDecoder(Kind, *Fd);
  bool Over = false;
  for (;;) {
    size_t Room = Made->Bytes - Padding - Made->Size;
    if (Kind != Compression::None)
      Room = std::min<uint64_t>(Room, Bounds.Held - Made->Size);
    if (Room == 0) {
      char Next;
      Over = Bytes->read(&Next, 1) == 1;
      break;
    }
    size_t Got = Bytes->read(Made->Base + Made->Size, Room);
    Made->Size += Got;
    if (Got < Room)
      break;
    if ((Kind == Compression::None || Made->Size < Bounds.Held) &&
        !Made->grow(Made->Bytes + Made->Bytes / 2 + Padding))
      return OutOfMemory();
  }
  Made->grow(Made->Size + Padding); // gives the unused pages back
  Truncation = Over ? overLimit(Bounds.Held) : Bytes->Broken;
  Content = std::move(Made);
  return StringRef(Content->Base, Content->Size);
}

Error InputFile::stream(function_ref<bool(StringRef)> Sink) {
  std::vector<char> Piece(1 << 20);
  return stream([&] { return MutableArrayRef<char>(Piece); },
                [&](size_t Count) {
                  return Sink(StringRef(Piece.data(), Count));
                });
}

Error InputFile::stream(function_ref<MutableArrayRef<char>()> Room,
                        function_ref<bool(size_t)> Filled) {
  uint64_t Size = 0;
  Expected<int> Fd = openRegular(Path, Size);
  if (!Fd)
    return Fd.takeError();
  auto Close = make_scope_exit([&] { ::close(*Fd); });
  std::unique_ptr<Decoder> Bytes = makeDecoder(Kind, *Fd);
  uint64_t Left = Kind == Compression::None ? UINT64_MAX : Bounds.Streamed;
  for (;;) {
    MutableArrayRef<char> Space = Room();
    size_t Got = Bytes->read(Space.data(), Space.size());
    bool Over = Got > Left;
    Got = std::min<uint64_t>(Got, Left);
    Left -= Got;
    if (Got && !Filled(Got))
      return Error::success();
    if (Over) {
      Truncation = overLimit(Bounds.Streamed);
      return Error::success();
    }
    if (Got < Space.size())
      break;
  }
  Truncation = Bytes->Broken;
  return Error::success();
}

Error InputFile::lines(function_ref<bool(StringRef)> Sink, size_t PieceBytes) {
  // Bytes up to Kept are of a line whose end has not come yet.
  std::vector<char> Buffer(PieceBytes);
  size_t Kept = 0;
  bool Stopped = false;
  Error E = stream(
      [&] {
        if (Kept * 2 > Buffer.size())
          Buffer.resize(Buffer.size() * 2);
        return MutableArrayRef<char>(Buffer).drop_front(Kept);
      },
      [&](size_t Count) {
        StringRef Filled(Buffer.data(), Kept + Count);
        size_t End = Filled.drop_front(Kept).rfind('\n');
        if (End == StringRef::npos && Filled.size() < MaxLine) {
          Kept = Filled.size();
          return true;
        }
        End = End == StringRef::npos ? Filled.size() : Kept + End + 1;
        Stopped = !Sink(Filled.take_front(End));
        Kept = Filled.size() - End;
        std::memmove(Buffer.data(), Buffer.data() + End, Kept);
        return !Stopped;
      });
  if (E || Stopped)
    return E;
  if (Kept)
    Sink(StringRef(Buffer.data(), Kept));
  return Error::success();
}

} // namespace culprit
