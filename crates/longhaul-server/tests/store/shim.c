/* A file system that fails, by the variable LONGHAUL_FAIL: `lock` has no locks, `full` has no room for more,
 * `readonly` opens nothing for writing. Only files whose names hold "store.db" are of it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int fails(const char *how) {
  const char *set = getenv("LONGHAUL_FAIL");
  return set != NULL && strcmp(set, how) == 0;
}

static int is_of_it(int file) {
  char link[64], name[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, name, sizeof name - 1);
  if (length < 0) return 0;
  name[length] = 0;
  return strstr(name, "store.db") != NULL;
}

static int lock_or_else(const char *name, int file, int command, void *argument) {
  int (*real)(int, int, void *) = (int (*)(int, int, void *))dlsym(RTLD_NEXT, name);
  int locks = command == F_SETLK || command == F_SETLKW;
  if (locks && fails("lock") && is_of_it(file)) {
    errno = ENOLCK;
    return -1;
  }
  return real(file, command, argument);
}

int fcntl(int file, int command, ...) {
  va_list more;
  va_start(more, command);
  void *argument = va_arg(more, void *);
  va_end(more);
  return lock_or_else("fcntl", file, command, argument);
}

int fcntl64(int file, int command, ...) {
  va_list more;
  va_start(more, command);
  void *argument = va_arg(more, void *);
  va_end(more);
  return lock_or_else("fcntl64", file, command, argument);
}

/* There is room for so many bytes, counted over all files. */
static long room = -1;

static int is_full(int file, size_t count) {
  if (!fails("full") || !is_of_it(file)) return 0;
  if (room < 0) {
    const char *set = getenv("LONGHAUL_ROOM");
    room = set == NULL ? 0 : atol(set);
  }
  if ((long)count > room) {
    errno = ENOSPC;
    return 1;
  }
  room -= (long)count;
  return 0;
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at) {
  ssize_t (*real)(int, const void *, size_t, off64_t) =
      (ssize_t (*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64");
  return is_full(file, count) ? -1 : real(file, bytes, count, at);
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t at) {
  ssize_t (*real)(int, const void *, size_t, off_t) = (ssize_t (*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite");
  return is_full(file, count) ? -1 : real(file, bytes, count, at);
}

ssize_t write(int file, const void *bytes, size_t count) {
  ssize_t (*real)(int, const void *, size_t) = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
  return is_full(file, count) ? -1 : real(file, bytes, count);
}

static int open_or_else(const char *name, const char *path, int flags, mode_t mode) {
  int (*real)(const char *, int, mode_t) = (int (*)(const char *, int, mode_t))dlsym(RTLD_NEXT, name);
  if (fails("readonly") && strstr(path, "store.db") != NULL && (flags & O_ACCMODE) != O_RDONLY) {
    errno = EROFS;
    return -1;
  }
  return real(path, flags, mode);
}

int open(const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  mode_t mode = va_arg(more, mode_t);
  va_end(more);
  return open_or_else("open", path, flags, mode);
}

int open64(const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  mode_t mode = va_arg(more, mode_t);
  va_end(more);
  return open_or_else("open64", path, flags, mode);
}
