//===- SessionTest.cpp - Folders, talks and launched commands ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/Control.h"
#include "Attach/Launch.h"
#include "Attach/SessionFolder.h"
#include "Support/Error.h"
#include "gtest/gtest.h"
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

using namespace culprit;
using namespace culprit::attach;
using namespace culprit::capture;
using std::chrono::milliseconds;

namespace {
/// A folder of the test's own, with what is in it removed at the end.
struct Scratch {
  Scratch() {
    char Name[] = "/tmp/attach-test-XXXXXX";
    Path = mkdtemp(Name);
  }
  ~Scratch() { (void)!system(("rm -r " + Path).c_str()); }
  std::string Path;
};
} // namespace

static Descriptor connectTo(const std::string &Path) {
  Descriptor Socket(socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un Address = {};
  Address.sun_family = AF_UNIX;
  strncpy(Address.sun_path, Path.c_str(), sizeof Address.sun_path - 1);
  if (connect(Socket.get(), reinterpret_cast<sockaddr *>(&Address),
              sizeof Address) != 0)
    Socket.reset();
  return Socket;
}

template <typename T>
static void sendTo(int Socket, MessageType Type, const T &Body) {
  MessageHead Head = {MessageMagic, Type, sizeof Body};
  std::string Bytes(reinterpret_cast<char *>(&Head), sizeof Head);
  Bytes.append(reinterpret_cast<const char *>(&Body), sizeof Body);
  // In two parts: a message may come in any.
  (void)!write(Socket, Bytes.data(), 5);
  (void)!write(Socket, Bytes.data() + 5, Bytes.size() - 5);
}

TEST(SessionFolderTest, OfAProcess) {
  ProcessInfo Info = cantFail(ProcessInfo::read(getpid()));
  std::string Path;
  {
    SessionFolder Folder = cantFail(SessionFolder::create(Info));
    Path = Folder.path();
    EXPECT_EQ(Path.rfind("/tmp/culprit-", 0), 0u);
    struct stat S;
    ASSERT_EQ(stat(Path.c_str(), &S), 0);
    EXPECT_EQ(S.st_mode & 07777, 0700u);
    EXPECT_EQ(S.st_uid, geteuid());
    ASSERT_FALSE(bool(Folder.addAgent("/proc/self/exe")));
    ASSERT_EQ(stat((Path + "/libculprit-agent.so").c_str(), &S), 0);
    EXPECT_EQ(S.st_mode & 07777, 0500u);
    struct stat Own;
    stat("/proc/self/exe", &Own);
    EXPECT_EQ(S.st_size, Own.st_size);
    Descriptor Socket = cantFail(Folder.listen());
    EXPECT_TRUE(bool(connectTo(Path + "/control")));
    llvm::Error Missing = Folder.addAgent("/nonexistent");
    EXPECT_TRUE(bool(Missing));
    llvm::consumeError(std::move(Missing));
  }
  EXPECT_NE(access(Path.c_str(), F_OK), 0);
}

TEST(SessionFolderTest, RemovesWhatKilledOnesLeft) {
  Scratch S;
  std::string Stale = S.Path + "/culprit-abc123";
  std::string Foreign = S.Path + "/culprit-x";
  mkdir(Stale.c_str(), 0700);
  mkdir(Foreign.c_str(), 0700);
  {
    Descriptor Socket(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un Address = {};
    Address.sun_family = AF_UNIX;
    strcpy(Address.sun_path, (Stale + "/control").c_str());
    ASSERT_EQ(bind(Socket.get(), reinterpret_cast<sockaddr *>(&Address),
                   sizeof Address),
              0);
  }
  SessionFolder First = cantFail(SessionFolder::createHere(S.Path));
  EXPECT_NE(access(Stale.c_str(), F_OK), 0);
  EXPECT_EQ(access(Foreign.c_str(), F_OK), 0);
  // One that is alive stays.
  Descriptor Socket = cantFail(First.listen());
  SessionFolder Second = cantFail(SessionFolder::createHere(S.Path));
  EXPECT_EQ(access(First.path().c_str(), F_OK), 0);
  // Nor does one that takes no connections, as a stopped one, hold up others:
  // its queue has 64 places.
  for (unsigned I = 0; I < 80; ++I)
    cantFail(SessionFolder::createHere(S.Path));
  EXPECT_EQ(access(First.path().c_str(), F_OK), 0);
}

TEST(ControlTest, ASession) {
  Scratch S;
  SessionFolder Folder = cantFail(SessionFolder::createHere(S.Path));
  Descriptor Listener = cantFail(Folder.listen());
  int Passed[2];
  ASSERT_EQ(pipe(Passed), 0);
  std::thread Agent([&] {
    Descriptor Silent = connectTo(Folder.path() + "/control");
    (void)!write(Silent.get(), "rubbish!", 8);
    Descriptor Socket = connectTo(Folder.path() + "/control");
    HelloMessage Hello = {};
    Hello.Protocol = ProtocolVersion;
    Hello.Pid = 42;
    memset(Hello.Agent, 'x', sizeof Hello.Agent); // No end.
    sendTo(Socket.get(), MessageType::Hello, Hello);
    char Bytes[sizeof(MessageHead) + sizeof(StartMessage)];
    iovec Part = {Bytes, sizeof Bytes};
    alignas(cmsghdr) char Extra[CMSG_SPACE(sizeof(int))];
    msghdr Message = {};
    Message.msg_iov = &Part;
    Message.msg_iovlen = 1;
    Message.msg_control = Extra;
    Message.msg_controllen = sizeof Extra;
    ASSERT_EQ(recvmsg(Socket.get(), &Message, MSG_WAITALL),
              ssize_t(sizeof Bytes));
    int Capture;
    memcpy(&Capture, CMSG_DATA(CMSG_FIRSTHDR(&Message)), sizeof Capture);
    ASSERT_EQ(write(Capture, "c", 1), 1);
    close(Capture);
    StartedMessage Started = {};
    Started.Cupti = 130001;
    sendTo(Socket.get(), MessageType::Started, Started);
    MessageHead Head;
    ASSERT_EQ(recv(Socket.get(), &Head, sizeof Head, MSG_WAITALL),
              ssize_t(sizeof Head));
    EXPECT_EQ(Head.Type, MessageType::Stop);
    DoneMessage Done = {};
    Done.Reason = EndReason::Detached;
    Done.Last.BytesWritten = 77;
    sendTo(Socket.get(), MessageType::Done, Done);
  });
  std::optional<Control> Talk =
      cantFail(Control::accept(Listener.get(), geteuid(), milliseconds(5000)));
  ASSERT_TRUE(Talk);
  EXPECT_EQ(Talk->hello().Pid, 42u);
  EXPECT_EQ(Talk->process(), getpid());
  EXPECT_EQ(strlen(Talk->hello().Agent), sizeof(HelloMessage::Agent) - 1);
  StartMessage Start = {};
  ASSERT_FALSE(bool(Talk->start(Start, Passed[1])));
  auto Next = [&] { return cantFail(Talk->receive(milliseconds(5000))); };
  std::optional<Control::Message> M = Next();
  ASSERT_TRUE(M && std::holds_alternative<StartedMessage>(*M));
  EXPECT_EQ(std::get<StartedMessage>(*M).Cupti, 130001u);
  char Byte = 0;
  EXPECT_EQ(read(Passed[0], &Byte, 1), 1);
  EXPECT_EQ(Byte, 'c');
  ASSERT_FALSE(bool(Talk->stop()));
  M = Next();
  ASSERT_TRUE(M && std::holds_alternative<DoneMessage>(*M));
  EXPECT_EQ(std::get<DoneMessage>(*M).Last.BytesWritten, 77u);
  Agent.join();
  M = Next();
  ASSERT_TRUE(M && std::holds_alternative<Control::Closed>(*M));
  EXPECT_FALSE(
      cantFail(Control::accept(Listener.get(), geteuid(), milliseconds(10))));
}

TEST(ControlTest, BadMessages) {
  Scratch S;
  SessionFolder Folder = cantFail(SessionFolder::createHere(S.Path));
  Descriptor Listener = cantFail(Folder.listen());
  auto Connect = [&](uint32_t Protocol) {
    Descriptor Socket = connectTo(Folder.path() + "/control");
    HelloMessage Hello = {};
    Hello.Protocol = Protocol;
    sendTo(Socket.get(), MessageType::Hello, Hello);
    return Socket;
  };
  Descriptor Other = Connect(ProtocolVersion + 1);
  llvm::Expected<std::optional<Control>> Talk =
      Control::accept(Listener.get(), geteuid(), milliseconds(1000));
  EXPECT_FALSE(bool(Talk));
  llvm::consumeError(Talk.takeError());
  for (MessageHead Head : {MessageHead{1, MessageType::Status, 0},
                           MessageHead{MessageMagic, MessageType(99), 8},
                           MessageHead{MessageMagic, MessageType::Done, 3}}) {
    Descriptor Socket = Connect(ProtocolVersion);
    std::optional<Control> Good = cantFail(
        Control::accept(Listener.get(), geteuid(), milliseconds(1000)));
    ASSERT_TRUE(Good);
    (void)!write(Socket.get(), &Head, sizeof Head);
    llvm::Expected<std::optional<Control::Message>> M =
        Good->receive(milliseconds(1000));
    EXPECT_FALSE(bool(M));
    llvm::consumeError(M.takeError());
  }
}

TEST(LaunchTest, Environment) {
  LaunchOptions Options;
  Options.Agent = "/opt/libculprit-agent.so";
  Options.Control = "/tmp/c/control";
  std::vector<std::string> Next = cantFail(launchEnvironment(
      {"A=1", "CULPRIT_CONTROL=old", "CULPRIT_CUPTI=old",
       "CUDA_INJECTION64_PATH="},
      Options));
  EXPECT_EQ(Next, (std::vector<std::string>{
                      "A=1", "CUDA_INJECTION64_PATH=/opt/libculprit-agent.so",
                      "NVTX_INJECTION64_PATH=/opt/libculprit-agent.so",
                      "CULPRIT_CONTROL=/tmp/c/control"}));
  llvm::Expected<std::vector<std::string>> Other =
      launchEnvironment({"CUDA_INJECTION64_PATH=/x/libother.so"}, Options);
  ASSERT_FALSE(bool(Other));
  EXPECT_EQ(toDiagnostics(Other.takeError())[0].Message,
            "CUDA_INJECTION64_PATH names another tool: /x/libother.so");
}

TEST(LaunchTest, AnotherToolOfNvtx) {
  LaunchOptions Options;
  Options.Agent = "/opt/libculprit-agent.so";
  llvm::Expected<std::vector<std::string>> Other =
      launchEnvironment({"NVTX_INJECTION64_PATH=/x/libother.so"}, Options);
  ASSERT_FALSE(bool(Other));
  EXPECT_EQ(toDiagnostics(Other.takeError())[0].Message,
            "NVTX_INJECTION64_PATH names another tool: /x/libother.so");
  // That of an older culprit is none.
  EXPECT_EQ(cantFail(launchEnvironment(
                {"NVTX_INJECTION64_PATH=/old/libculprit-agent.so"}, Options)),
            (std::vector<std::string>{
                "CUDA_INJECTION64_PATH=/opt/libculprit-agent.so",
                "NVTX_INJECTION64_PATH=/opt/libculprit-agent.so"}));
  // Where no ranges are wanted, the other one keeps them; ours goes.
  Options.Nvtx = false;
  EXPECT_EQ(cantFail(launchEnvironment({"NVTX_INJECTION64_PATH=/x/libother.so"},
                                       Options)),
            (std::vector<std::string>{
                "NVTX_INJECTION64_PATH=/x/libother.so",
                "CUDA_INJECTION64_PATH=/opt/libculprit-agent.so"}));
  EXPECT_EQ(cantFail(launchEnvironment(
                {"NVTX_INJECTION64_PATH=/old/libculprit-agent.so"}, Options)),
            (std::vector<std::string>{
                "CUDA_INJECTION64_PATH=/opt/libculprit-agent.so"}));
}

static std::optional<ExitStatus> runShell(const char *Text, int Signal = 0) {
  LaunchOptions Options;
  Options.Command = {"sh", "-c", Text};
  Options.Agent = "/opt/libculprit-agent.so";
  Launch Command = cantFail(Launch::start(Options));
  if (Signal) {
    std::this_thread::sleep_for(milliseconds(200));
    kill(getpid(), Signal);
  }
  return Command.wait(milliseconds(20000));
}

TEST(LaunchTest, ExitStatusAndSignals) {
  EXPECT_EQ(runShell("exit 3")->Code, 3);
  EXPECT_EQ(runShell("kill -9 $$")->Code, 137);
  EXPECT_EQ(runShell("kill -9 $$")->Signal, SIGKILL);
  EXPECT_EQ(runShell("test \"$CUDA_INJECTION64_PATH\" = "
                     "/opt/libculprit-agent.so")
                ->Code,
            0);
  // Passed on, and the handler of the command answers.
  EXPECT_EQ(runShell("trap 'exit 5' TERM; while :; do sleep 0.05; done",
                     SIGTERM)
                ->Code,
            5);
  LaunchOptions Missing;
  Missing.Command = {"no-such-command-anywhere"};
  llvm::Expected<Launch> Failed = Launch::start(Missing);
  EXPECT_FALSE(bool(Failed));
  llvm::consumeError(Failed.takeError());
}
