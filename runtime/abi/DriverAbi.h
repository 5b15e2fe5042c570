// SPDX-License-Identifier: Apache-2.0
//
// What a device driver is: one C struct of nine entries. The executor knows
// devices through it alone. Nothing here assumes an instruction set, or that
// memory of a device is memory of the host: whatever a device can't do the
// same way as a CPU is asked for by a flag in llmc_device_info.
//
// Versions: `struct_size` comes first in every struct. Fields and entries are
// appended, never changed or removed; a reader uses only the fields that
// `struct_size` covers. The nine entries below are mandatory.
//
// Threads: every entry may be called from any thread at any time, except that
// close must be the last call on its device. A driver serialises what it must.
//
// Errors: an entry returns 0 or one of the LLMC_DRIVER_* codes and then fills
// `error` (which may be NULL) with one sentence that says what was found and
// what was expected. On failure it has changed nothing and written no output
// except `error`. No entry exits, prints or lets an exception out.
#ifndef LLMC_RUNTIME_ABI_DRIVER_ABI_H
#define LLMC_RUNTIME_ABI_DRIVER_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLMC_DRIVER_ABI_VERSION 1u

/* Status codes; the numbers of llmc::Code, so that no table translates them. */
enum {
  LLMC_DRIVER_OK = 0,
  LLMC_DRIVER_INVALID_ARGUMENT = 1, /* the caller broke a rule written here */
  LLMC_DRIVER_CORRUPT = 2,          /* an image's bytes contradict themselves */
  LLMC_DRIVER_INCOMPATIBLE = 3,     /* an image is of another kernel ABI version */
  LLMC_DRIVER_NOT_FOUND = 4,        /* the image exports no kernel of that name */
  LLMC_DRIVER_UNAVAILABLE = 5,      /* the machine lacks something: memory, a feature, a device */
  LLMC_DRIVER_RESOURCE_EXHAUSTED = 6,
  LLMC_DRIVER_CANCELLED = 7, /* `stop` was seen */
  LLMC_DRIVER_INTERNAL = 8,
};

#define LLMC_DRIVER_MESSAGE_BYTES 512u
typedef struct llmc_driver_error {
  uint64_t struct_size;
  uint32_t step;       /* from wait: the failing step's index in its program, else LLMC_NO_STEP */
  int32_t kernel_code; /* from wait: what the kernel returned (KernelAbi.h), else 0 */
  char message[LLMC_DRIVER_MESSAGE_BYTES]; /* UTF-8, always terminated, cut to fit */
} llmc_driver_error;
#define LLMC_NO_STEP 0xFFFFFFFFu

/* A driver's own state of one opened device. */
typedef struct llmc_device llmc_device;

/* Names a memory, code or program of one device; unique within it and never reused. 0 is none. */
typedef uint64_t llmc_handle;

/* A place in a device's memory. The addresses [address, address + size) belong to one memory, and
 * adding to an address moves by bytes. Only the device's kernels and copies can follow one, unless
 * the device says LLMC_DEVICE_HOST_MEMORY. */
typedef uint64_t llmc_address;

/* Settings given by name, as from a command line ("threads", "2"). Borrowed for the call. */
typedef struct llmc_option {
  const char *key;
  const char *value;
} llmc_option;

enum {
  /* The device works in the host's memory: an llmc_address is a host pointer and any host memory
   * may be an operand, without alloc. Inputs, outputs and weights are then bound, not copied. */
  LLMC_DEVICE_HOST_MEMORY = 1u << 0,
};
typedef struct llmc_device_info {
  uint64_t struct_size;
  uint32_t flags;        /* LLMC_DEVICE_* */
  uint32_t workers;      /* how many workers share a kernel; 1 where that has no meaning */
  char description[128]; /* for a person: "AMD EPYC, avx2, 2 threads" */
} llmc_device_info;

enum {
  /* What kernels work on; a host view is a gift. */
  LLMC_MEMORY_DEVICE = 1,
  /* Memory with a host view (map can't fail) that kernels and copies can reach, perhaps slowly:
   * staging for uploads and downloads, tables that the host updates between submits. */
  LLMC_MEMORY_HOST = 2,
};
#define LLMC_MEMORY_ALIGN 64u
typedef struct llmc_memory {
  llmc_handle handle;
  llmc_address address;
} llmc_memory;

/* One image of a bundle, as found under code/: "x86_64-avx2.so". Borrowed for the call. */
typedef struct llmc_image {
  const char *name;
  const void *bytes;
  uint64_t size;
} llmc_image;

/* A program is straight-line: its steps run in order, and each sees all that the steps before it
 * wrote. Control flow, shapes and memory planning are the host's. */
enum {
  LLMC_STEP_DISPATCH = 1, /* run a kernel */
  LLMC_STEP_COPY = 2, /* operands: destination, source; scalar: bytes. The two may not overlap */
};
typedef struct llmc_step {
  uint32_t kind;
  uint32_t operand_count;
  uint32_t scalar_count;
  uint32_t reserved;
  uint64_t scratch_bytes; /* per worker, aligned to 64; 0 for COPY */
  const char *kernel;     /* exported symbol; NULL for COPY. Borrowed for the call */
} llmc_step;

/* What changes from submit to submit. Operands and scalars stand step after step, each step's in
 * its kernel's order. Everything pointed to is borrowed until wait has returned for the ticket. */
typedef struct llmc_submit_info {
  uint64_t struct_size;
  const llmc_address *operands;
  uint64_t operand_count; /* must equal the sum over the program's steps; likewise scalar_count */
  const int64_t *scalars;
  uint64_t scalar_count;
  uint64_t *step_ns;   /* NULL, or one word per step for its nanoseconds (0 where not measured) */
  const int32_t *stop; /* NULL, or a word of host memory: a driver may look at it between steps and,
                        * when it isn't 0, end the submit with LLMC_DRIVER_CANCELLED */
} llmc_submit_info;

typedef struct llmc_driver_v1 {
  uint64_t struct_size;
  uint32_t abi_version; /* LLMC_DRIVER_ABI_VERSION */
  uint32_t reserved;
  const char *name; /* "cpu"; what a bundle's device record calls its driver */

  /* Opens a device with settings. An unknown key or a bad value is INVALID_ARGUMENT. Two devices
   * opened from one driver share nothing. `info->struct_size` is set by the caller. */
  int32_t (*open)(const llmc_option *options, uint64_t option_count, llmc_device **device,
                  llmc_device_info *info, llmc_driver_error *error);

  /* Waits for running work, then releases the device and whatever it still holds. NULL is ignored.
   */
  void (*close)(llmc_device *device);

  /* `size` > 0 zeroed bytes whose address is a multiple of LLMC_MEMORY_ALIGN. Owned by the caller
   * until `free`. */
  int32_t (*alloc)(llmc_device *device, uint64_t size, uint32_t kind, llmc_memory *memory,
                   llmc_driver_error *error);

  /* Releases a memory, code or program. No submit that uses it may be running, and a program goes
   * before its code. 0 is ignored; an unknown or released handle is INVALID_ARGUMENT. */
  int32_t (*free)(llmc_device *device, llmc_handle handle, llmc_driver_error *error);

  /* The host's view of a memory, valid until `free`, or *view = NULL (and success) where there is
   * none. What the host wrote before submit is seen by it; what a submit wrote is seen after its
   * wait. The driver does whatever flushing that takes. */
  int32_t (*map)(llmc_device *device, llmc_handle memory, void **view, llmc_driver_error *error);

  /* Loads the best of `images` that this device can run and gives its index in *chosen. Images of
   * other device kinds are skipped. When none fits it is UNAVAILABLE and the message says what the
   * device lacks; it must be found out before any byte of an image is executed. */
  int32_t (*load_code)(llmc_device *device, const llmc_image *images, uint64_t image_count,
                       llmc_handle *code, uint64_t *chosen, llmc_driver_error *error);

  /* Resolves the steps' kernels in `code` (0 is allowed when all steps are copies). The steps are
   * copied; the code must live as long as the program. */
  int32_t (*create_program)(llmc_device *device, llmc_handle code, const llmc_step *steps,
                            uint64_t step_count, llmc_handle *program, llmc_driver_error *error);

  /* Runs a program once. Submits of a device run in the order of the calls, one after the other.
   * It may return before the program has run, or after. Tickets are >= 1 and rise. How the program
   * went is told by wait, not by submit. */
  int32_t (*submit)(llmc_device *device, llmc_handle program, const llmc_submit_info *info,
                    uint64_t *ticket, llmc_driver_error *error);

  /* Returns when the submit of that ticket, and so each one before it, has finished; gives the
   * outcome of that submit alone. A failure is told once: a second wait may succeed. A ticket never
   * given out is INVALID_ARGUMENT. */
  int32_t (*wait)(llmc_device *device, uint64_t ticket, llmc_driver_error *error);
} llmc_driver_v1;

#ifdef __cplusplus
} // extern "C"
#endif

#endif // LLMC_RUNTIME_ABI_DRIVER_ABI_H
