// SPDX-License-Identifier: Apache-2.0
//
// The C API of the llmc runtime: open a compiled bundle, run it on tensors, or
// generate tokens with it. This header is the one interface that llmc keeps
// stable: functions and fields are only ever added, and each says since when.
//
// Rules that hold for all of it:
// - Errors: a function that can fail returns an llmc_status and takes `llmc_error **error` last.
//   On failure *error receives an object that says what went wrong, to be freed with
//   llmc_error_free; on success it is set to NULL. `error` itself may be NULL.
// - Options: structs that begin with `struct_size` grow over time. Set it to the struct's size and
//   zero the rest (the LLMC_..._INIT macros do so). A zero field means its default unless the
//   field says otherwise; NULL in place of the struct means all defaults.
// - Owners: what a function creates is freed by the matching _free or _release; every other
//   pointer it returns is borrowed, for as long as its comment says. Buffers of tensors are the
//   caller's and are not kept after the call returns.
// - Threads: a bundle may be used from any number of threads. A session may be used from one
//   thread at a time, save llmc_session_cancel, which any thread may call.
// - Text is UTF-8. A `const char *` without a size beside it ends with a NUL.
// - Trust: a bundle holds machine code. Its tables are checked, its code is not: open only bundles
//   from sources whose shared libraries you would load.
#ifndef LLMC_LLMC_H
#define LLMC_LLMC_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define LLMC_API __attribute__((visibility("default")))
#else
#define LLMC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define LLMC_VERSION_MAJOR 0
#define LLMC_VERSION_MINOR 1
#define LLMC_VERSION_PATCH 0

/* "0.1.0": of the library that was loaded, which may be newer than this header. Since 0.1. */
LLMC_API const char *llmc_version(void);

/* ------------------------------------------------------------------ errors */

/* Since 0.1. Numbers are never reused. */
typedef enum llmc_status {
  LLMC_OK = 0,
  /* The request makes no sense: a wrong shape, dtype, name or option. */
  LLMC_INVALID_ARGUMENT = 1,
  /* The bundle is damaged. */
  LLMC_CORRUPT = 2,
  /* The bundle is whole, but of another format version or in need of a feature this library lacks.
   */
  LLMC_INCOMPATIBLE = 3,
  /* No file, entry, tensor or tokenizer of that name. */
  LLMC_NOT_FOUND = 4,
  /* The machine lacks something: memory, an instruction set, a driver, permission. */
  LLMC_UNAVAILABLE = 5,
  /* A limit was reached, such as the context capacity or the size of the buffer passed. */
  LLMC_RESOURCE_EXHAUSTED = 6,
  /* The callback or another thread asked to stop. */
  LLMC_CANCELLED = 7,
  /* A bug in llmc. */
  LLMC_INTERNAL = 8
} llmc_status;

typedef struct llmc_error llmc_error;

/* Never LLMC_OK, except for NULL. Since 0.1. */
LLMC_API llmc_status llmc_error_status(const llmc_error *error);
/* One sentence, never NULL; borrowed until the error is freed. Since 0.1. */
LLMC_API const char *llmc_error_message(const llmc_error *error);
/* NULL is allowed. Since 0.1. */
LLMC_API void llmc_error_free(llmc_error *error);

/* ----------------------------------------------------------------- bundles */

/* A compiled model with its devices. Reference-counted: sessions keep their bundle alive. */
typedef struct llmc_bundle llmc_bundle;

/* Since 0.1. */
typedef struct llmc_bundle_options {
  size_t struct_size;
  /* Workers of each CPU device; 0 = one for each physical core. Results don't depend on it. */
  uint32_t threads;
  /* Non-zero: check the SHA-256 of every entry, the weights too (about a second per GB). Manifest,
   * program and code are always checked. */
  uint32_t verify;
  /* The highest instruction set level to use, such as "avx2"; NULL = the best that the bundle holds
   * and the CPU has. */
  const char *isa;
  /* Non-zero: weights stay in the mapped file's pages. Otherwise, after the first call, a
   * background thread moves them into 2 MB pages where there is memory enough, which speeds up what
   * follows; other processes then share them no longer. */
  uint32_t no_huge_pages;
} llmc_bundle_options;
#define LLMC_BUNDLE_OPTIONS_INIT {sizeof(llmc_bundle_options), 0, 0, NULL, 0}

/* Maps the file at `path` and makes it ready to run. *bundle starts with one reference. The file
 * must not be changed while the bundle is alive (replacing it by renaming another over it is fine).
 * Errors: NOT_FOUND, CORRUPT, INCOMPATIBLE, UNAVAILABLE (permission, memory, CPU). Since 0.1. */
LLMC_API llmc_status llmc_bundle_open(const char *path, const llmc_bundle_options *options,
                                      llmc_bundle **bundle, llmc_error **error);

/* As llmc_bundle_open, from `size` bytes at `data`. The bytes are borrowed and must stay unchanged
 * until the bundle's last reference is gone; `data` must be aligned to 64 bytes (to 2 MB for the
 * best speed). Since 0.1. */
LLMC_API llmc_status llmc_bundle_open_memory(const void *data, size_t size,
                                             const llmc_bundle_options *options,
                                             llmc_bundle **bundle, llmc_error **error);

/* Adds a reference; thread-safe. Since 0.1. */
LLMC_API void llmc_bundle_retain(llmc_bundle *bundle);
/* Drops a reference; the last one frees the bundle. NULL is allowed; thread-safe. Since 0.1. */
LLMC_API void llmc_bundle_release(llmc_bundle *bundle);

/* Element types; the numbers are those of ONNX's TensorProto.DataType. Since 0.1. */
typedef enum llmc_dtype {
  LLMC_F32 = 1,
  LLMC_U8 = 2,
  LLMC_I8 = 3,
  LLMC_U16 = 4,
  LLMC_I16 = 5,
  LLMC_I32 = 6,
  LLMC_I64 = 7,
  LLMC_BOOL = 9, /* one byte, 0 or 1 */
  LLMC_F16 = 10,
  LLMC_F64 = 11,
  LLMC_U32 = 12,
  LLMC_U64 = 13,
  LLMC_BF16 = 16
} llmc_dtype;

/* Bytes of one element, or 0 for an unknown type. Since 0.1. */
LLMC_API size_t llmc_dtype_size(llmc_dtype dtype);
/* "f32", "i64", "bool", …; "invalid" for an unknown type. Since 0.1. */
LLMC_API const char *llmc_dtype_name(llmc_dtype dtype);

/* Filled by llmc_bundle_get_info. Since 0.1. */
typedef struct llmc_bundle_info {
  size_t struct_size;
  /* Inputs and outputs of llmc_run: those of the ONNX model; 0 when the bundle has no such entry.
   */
  size_t input_count;
  size_t output_count;
  /* Non-zero when sessions can be created: the model takes token ids and gives logits. */
  uint32_t can_generate;
  /* Non-zero when llmc_tokenize and llmc_detokenize work. */
  uint32_t has_tokenizer;
  /* The most tokens that a session holds unless it asks for another number. */
  uint64_t default_context;
  /* Entries of the vocabulary of the logits; 0 when it isn't fixed. */
  uint64_t vocabulary;
  /* manifest.json: `manifest_size` bytes of JSON, borrowed until the bundle is gone. */
  const char *manifest;
  size_t manifest_size;
  /* The first device, for people: "AMD EPYC, avx2, 2 threads"; borrowed until the bundle is gone.
   */
  const char *device;
} llmc_bundle_info;

/* `info->struct_size` must be set. Since 0.1. */
LLMC_API llmc_status llmc_bundle_get_info(const llmc_bundle *bundle, llmc_bundle_info *info,
                                          llmc_error **error);

/* One input or output. All pointers are borrowed until the bundle is gone. Since 0.1. */
typedef struct llmc_io_info {
  size_t struct_size;
  const char *name;
  llmc_dtype dtype;
  uint32_t rank;
  /* `rank` sizes, -1 where only the call decides. */
  const int64_t *dims;
  /* `rank` texts: "768", or the model's own name, such as "batch_size" or "past + sequence". */
  const char *const *dim_names;
  /* What the input means to a generation loop: "ids", "positions", "mask", "past", "logits", …,
   * "other". */
  const char *role;
} llmc_io_info;

/* Input or output number `index`, in the model's order. `info->struct_size` must be set.
 * Errors: INVALID_ARGUMENT when there is no such index. Since 0.1. */
LLMC_API llmc_status llmc_bundle_get_input(const llmc_bundle *bundle, size_t index,
                                           llmc_io_info *info, llmc_error **error);
LLMC_API llmc_status llmc_bundle_get_output(const llmc_bundle *bundle, size_t index,
                                            llmc_io_info *info, llmc_error **error);

/* --------------------------------------------------------------------- run */

#define LLMC_TENSOR_MAX_RANK 16

/* A dense row-major tensor in the caller's memory. Since 0.1; its layout is final. */
typedef struct llmc_tensor {
  const char *name;
  llmc_dtype dtype;
  uint32_t rank;
  int64_t dims[LLMC_TENSOR_MAX_RANK];
  void *data;       /* only read for inputs; may be NULL when the tensor has no elements */
  size_t byte_size; /* size of the memory at `data` */
} llmc_tensor;

/* Fills dtype, rank and dims of each of `outputs`, found by its name, and sets byte_size to what it
 * needs, for inputs of the given dtypes and dims (their data is not looked at). Thread-safe.
 * Errors: NOT_FOUND (no such output), INVALID_ARGUMENT (inputs missing, unknown, of a wrong dtype
 * or of dims that don't fit each other). Since 0.1. */
LLMC_API llmc_status llmc_output_shapes(llmc_bundle *bundle, const llmc_tensor *inputs,
                                        size_t input_count, llmc_tensor *outputs,
                                        size_t output_count, llmc_error **error);

/* Runs the model once. Every input must be given; of the outputs only those wanted, each with
 * memory of at least the size that llmc_output_shapes says; dtype, rank and dims of outputs are
 * filled in. Inputs and outputs may come in any order and must not overlap in memory. Thread-safe.
 * Errors: as llmc_output_shapes; RESOURCE_EXHAUSTED (an output's
 * memory is too small), INVALID_ARGUMENT (the model itself refuses a value, such as an index out of
 * range). Since 0.1. */
LLMC_API llmc_status llmc_run(llmc_bundle *bundle, const llmc_tensor *inputs, size_t input_count,
                              llmc_tensor *outputs, size_t output_count, llmc_error **error);

/* --------------------------------------------------------------- tokenizer */

/* Since 0.1. */
typedef struct llmc_tokenize_options {
  size_t struct_size;
  /* Non-zero: don't add the begin- and end-of-text tokens that the model's tokenizer adds by
   * itself. */
  uint32_t no_special_tokens;
} llmc_tokenize_options;
#define LLMC_TOKENIZE_OPTIONS_INIT {sizeof(llmc_tokenize_options), 0}

/* Writes the ids of `text_size` bytes at `text` to `ids`, which has room for `capacity`. *count
 * receives how many there are, also when they don't fit: call with capacity 0 to learn it. Bytes
 * that are not UTF-8 count as U+FFFD. Special tokens written in the text are recognised.
 * Thread-safe. Errors: RESOURCE_EXHAUSTED (capacity > 0 and too small), NOT_FOUND (the bundle has
 * no tokenizer). Since 0.1. */
LLMC_API llmc_status llmc_tokenize(llmc_bundle *bundle, const char *text, size_t text_size,
                                   const llmc_tokenize_options *options, int32_t *ids,
                                   size_t capacity, size_t *count, llmc_error **error);

/* Since 0.1. */
typedef struct llmc_detokenize_options {
  size_t struct_size;
  /* Non-zero: write special tokens out instead of leaving them away. */
  uint32_t keep_special_tokens;
} llmc_detokenize_options;
#define LLMC_DETOKENIZE_OPTIONS_INIT {sizeof(llmc_detokenize_options), 0}

/* Writes the text of `count` ids to `text`, which has room for `capacity` bytes; no NUL is added.
 * *text_size receives the size, also when it doesn't fit: call with capacity 0 to learn it. Ids
 * that no token has are left out; bytes that form no UTF-8 become U+FFFD. Thread-safe.
 * Errors: as llmc_tokenize. Since 0.1. */
LLMC_API llmc_status llmc_detokenize(llmc_bundle *bundle, const int32_t *ids, size_t count,
                                     const llmc_detokenize_options *options, char *text,
                                     size_t capacity, size_t *text_size, llmc_error **error);

/* ---------------------------------------------------------------- sessions */

/* One sequence of tokens and what the model remembers of it. */
typedef struct llmc_session llmc_session;

/* Since 0.1. */
typedef struct llmc_session_options {
  size_t struct_size;
  /* The most tokens the sequence may hold; 0 = the bundle's default. Memory is taken as it fills.
   */
  uint64_t context;
} llmc_session_options;
#define LLMC_SESSION_OPTIONS_INIT {sizeof(llmc_session_options), 0}

/* An empty sequence. Keeps a reference to the bundle.
 * Errors: INVALID_ARGUMENT (the model can't generate: the message names the inputs that stand in
 * the way), UNAVAILABLE (memory). Since 0.1. */
LLMC_API llmc_status llmc_session_create(llmc_bundle *bundle, const llmc_session_options *options,
                                         llmc_session **session, llmc_error **error);
/* NULL is allowed. Since 0.1. */
LLMC_API void llmc_session_free(llmc_session *session);

/* Tokens in the sequence, and the most it may hold. Since 0.1. */
LLMC_API uint64_t llmc_session_length(const llmc_session *session);
LLMC_API uint64_t llmc_session_capacity(const llmc_session *session);

/* Appends `count` >= 1 tokens and computes the logits after the last one. After an error the
 * sequence is as long as before, and has no logits.
 * Errors: RESOURCE_EXHAUSTED (over capacity: nothing was computed), INVALID_ARGUMENT (an id outside
 * of the vocabulary), CANCELLED. Since 0.1. */
LLMC_API llmc_status llmc_session_prefill(llmc_session *session, const int32_t *ids, size_t count,
                                          llmc_error **error);
/* The same for one token. Since 0.1. */
LLMC_API llmc_status llmc_session_decode(llmc_session *session, int32_t id, llmc_error **error);

/* Logits after the sequence's last token: (vocabulary) floats, their number in *count; NULL and 0
 * before the first prefill and after a rewind. Borrowed until the session's next call. Since 0.1.
 */
LLMC_API const float *llmc_session_logits(const llmc_session *session, size_t *count);

/* Forgets all but the first `length` tokens; 0 empties the sequence. Errors: INVALID_ARGUMENT
 * (longer than the sequence). Since 0.1. */
LLMC_API llmc_status llmc_session_rewind(llmc_session *session, uint64_t length,
                                         llmc_error **error);

/* Makes the prefill, decode or generate that runs in another thread return CANCELLED soon (between
 * two chunks or tokens); when none runs, the next one returns at once. Each request stops one call.
 * Thread-safe. Since 0.1. */
LLMC_API void llmc_session_cancel(llmc_session *session);

/* ---------------------------------------------------------------- generate */

/* Why a generation ended. Since 0.1. */
typedef enum llmc_finish {
  LLMC_FINISH_LENGTH = 0,       /* max_tokens were generated */
  LLMC_FINISH_STOP_TOKEN = 1,   /* the model ended its text */
  LLMC_FINISH_STOP_STRING = 2,  /* one of `stop` appeared */
  LLMC_FINISH_CONTEXT_FULL = 3, /* the session's capacity was reached */
  LLMC_FINISH_CANCELLED = 4     /* the callback or llmc_session_cancel asked to stop */
} llmc_finish;

/* How the next token is chosen and when to stop. A field left negative (or 0 where that is said)
 * takes the bundle's default, which comes from the model's generation_config.json. Since 0.1. */
typedef struct llmc_generate_options {
  size_t struct_size;
  uint64_t max_tokens;         /* 0 = until the context is full */
  uint32_t greedy;             /* non-zero: always the most likely token, the lowest id on ties */
  uint32_t ignore_stop_tokens; /* non-zero: go on after the model's end-of-text tokens */
  float temperature;           /* negative = default; 0 = greedy */
  float top_p;                 /* negative = default; 1 = off */
  float min_p;                 /* negative = default; 0 = off */
  float repetition_penalty;    /* negative = default; 1 = off */
  int32_t top_k;               /* negative = default; 0 = off */
  uint32_t has_seed;           /* 0: a fresh seed each time */
  uint64_t seed;
  const char *const *stop; /* `stop_count` texts; neither they nor what follows is reported */
  size_t stop_count;
} llmc_generate_options;
#define LLMC_GENERATE_OPTIONS_INIT                                                                 \
  {sizeof(llmc_generate_options), 0, 0, 0, -1.0f, -1.0f, -1.0f, -1.0f, -1, 0, 0, NULL, 0}

/* One step of a generation. Pointers are borrowed until the callback returns. Since 0.1. */
typedef struct llmc_token_event {
  size_t struct_size;
  int32_t id;       /* the token, or -1 in a last event that only brings held-back text */
  const char *text; /* whole UTF-8 characters, maybe none: a character or a possible stop text may
                       be held back until it is complete */
  size_t text_size;
} llmc_token_event;

/* Called after each token, in the thread that called llmc_session_generate. Return 0 to go on,
 * anything else to stop. It may not call functions of this session other than llmc_session_cancel.
 */
typedef int (*llmc_token_callback)(void *user, const llmc_token_event *event);

/* Since 0.1. */
typedef struct llmc_generate_result {
  size_t struct_size;
  llmc_finish finish;
  uint64_t prompt_tokens;
  uint64_t generated_tokens;
  double prefill_seconds; /* prompt in to first logits out */
  double decode_seconds;  /* all further tokens */
} llmc_generate_result;

/* Appends the prompt and then tokens chosen one after the other. A token that ends the text is not
 * reported. Needs no tokenizer: without one, events have no text, and `stop` must be empty.
 * `callback` and `result` may be NULL (set result->struct_size). The sequence afterwards holds the
 * prompt and all reported tokens but possibly the last. Errors: as llmc_session_prefill (the prompt
 * alone exceeds the capacity: RESOURCE_EXHAUSTED); CANCELLED when the callback or
 * llmc_session_cancel stopped it, with *result filled. Since 0.1. */
LLMC_API llmc_status llmc_session_generate(llmc_session *session, const int32_t *prompt,
                                           size_t prompt_count,
                                           const llmc_generate_options *options,
                                           llmc_token_callback callback, void *user,
                                           llmc_generate_result *result, llmc_error **error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* LLMC_LLMC_H */
