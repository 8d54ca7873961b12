#include "base/mapped_file.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/strings.h"

namespace erne {

// Entries form a list that the handler walks without a lock: they are added at the head and never
// freed, only left empty for the next file.
struct MappedFile::Entry {
  std::atomic<const std::byte*> begin{nullptr};  // null: the entry is free
  std::atomic<const std::byte*> end{nullptr};
  std::atomic<const char*> path{nullptr};
  Entry* next = nullptr;

  static std::atomic<Entry*> head;
  static std::mutex mutex;  // of those who add and remove

  static Entry* Add(const MappedFile& file);
  void Remove();
  static void OnBusError(int signal, siginfo_t* info, void* context);
};

std::atomic<MappedFile::Entry*> MappedFile::Entry::head{nullptr};
std::mutex MappedFile::Entry::mutex;

namespace {

void WriteAll(const char* text) {
  size_t left = std::strlen(text);
  while (left > 0) {
    const ssize_t written = ::write(STDERR_FILENO, text, left);
    if (written <= 0) return;
    text += written;
    left -= static_cast<size_t>(written);
  }
}

}  // namespace

// Async-signal-safe: it reads atomics, writes and exits.
void MappedFile::Entry::OnBusError(int signal, siginfo_t* info, void*) {
  const auto* at = static_cast<const std::byte*>(info->si_addr);
  const bool by_access = info->si_code > 0;  // else somebody sent it, and there is no address
  for (const Entry* entry = head.load(); entry != nullptr; entry = entry->next) {
    const std::byte* begin = entry->begin.load();
    if (!by_access || begin == nullptr || at < begin || at >= entry->end.load()) continue;
    WriteAll("erne: ");
    WriteAll(entry->path.load());
    WriteAll(
        ": became shorter, or could not be read, while it was in use; start again when it is "
        "complete\n");
    ::_exit(1);
  }
  // Not ours: it ends the process, as it would have without us.
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

MappedFile::Entry* MappedFile::Entry::Add(const MappedFile& file) {
  const std::lock_guard lock(mutex);
  static const bool handles = [] {
    // Whoever has a handler already (a sanitizer) keeps it.
    struct sigaction present = {};
    if (::sigaction(SIGBUS, nullptr, &present) != 0 || present.sa_handler != SIG_DFL) return false;
    struct sigaction action = {};
    action.sa_sigaction = &Entry::OnBusError;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    return ::sigaction(SIGBUS, &action, nullptr) == 0;
  }();
  (void)handles;
  Entry* entry = head.load();
  while (entry != nullptr && entry->begin.load() != nullptr) entry = entry->next;
  const bool fresh = entry == nullptr;
  if (fresh) {
    entry = new Entry;  // NOLINT(cppcoreguidelines-owning-memory): lives as long as the process
    entry->next = head.load();
  }
  entry->path = file.path_.c_str();
  entry->end = file.bytes_.data() + file.bytes_.size();
  entry->begin = file.bytes_.data();
  if (fresh) head = entry;
  return entry;
}

void MappedFile::Entry::Remove() {
  const std::lock_guard lock(mutex);
  begin = nullptr;
}

Result<std::unique_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  std::unique_ptr<MappedFile> file(new MappedFile(path));
  ERNE_RETURN_IF_ERROR(file->Map());
  return std::unique_ptr<const MappedFile>(std::move(file));
}

Status MappedFile::Map() {
  // Non-blocking, for a FIFO of that name would otherwise wait for a writer; files do not care.
  file_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat info = {};
  if (file_ < 0) {
    const int error = errno;
    const bool dangles = error == ENOENT && ::lstat(path_.c_str(), &info) == 0;
    const std::string reason =
        StrCat(path_, ": ", dangles ? "a link to nothing" : std::strerror(error));
    return error == ENOENT ? NotFound(reason) : InvalidArgument(reason);
  }
  if (::fstat(file_, &info) != 0 || !S_ISREG(info.st_mode)) {
    return InvalidArgument(StrCat(path_, ": not a regular file"));
  }
  written_ = info.st_mtim;
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return {};
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file_, 0);
  if (address == MAP_FAILED) {
    return InvalidArgument(StrCat(path_, ": cannot be mapped: ", std::strerror(errno)));
  }
  bytes_ = {static_cast<const std::byte*>(address), size};
  entry_ = Entry::Add(*this);
  return {};
}

MappedFile::~MappedFile() {
  if (entry_ != nullptr) entry_->Remove();
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  if (file_ >= 0) ::close(file_);
}

Status MappedFile::CheckUnchanged() const {
  struct stat info = {};
  if (::fstat(file_, &info) != 0) {
    return DataLoss(StrCat(path_, ": cannot be looked at any more: ", std::strerror(errno)));
  }
  if (static_cast<size_t>(info.st_size) != bytes_.size()) {
    return DataLoss(StrCat(path_, ": had ", bytes_.size(), " bytes when it was opened and has ",
                           info.st_size, " now; start again when it is complete"));
  }
  if (info.st_mtim.tv_sec != written_.tv_sec || info.st_mtim.tv_nsec != written_.tv_nsec) {
    return DataLoss(
        StrCat(path_, ": was written while it was read; start again when it is complete"));
  }
  return {};
}

void MappedFile::ReleasePages() const {
  // Advice; a failure costs memory alone.
  if (!bytes_.empty()) {
    ::madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_DONTNEED);
  }
}

}  // namespace erne
