// SPDX-License-Identifier: Apache-2.0
//
// The layout of the bundle entry `tokenizer/tokenizer.bin`: a Hugging Face
// tokenizer.json compiled into tables that the runtime maps and uses in place.
// Little-endian; every table starts at a multiple of 8 from the entry's start.
// No field is trusted: runtime/llm/TokenizerTables.cpp checks each one at load.
//
// Format log (before 1.0 a reader accepts exactly its own version):
//   0.1  first version
#ifndef LLMC_RUNTIME_ABI_TOKENIZER_FORMAT_H
#define LLMC_RUNTIME_ABI_TOKENIZER_FORMAT_H

#include "runtime/abi/BundleFormat.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LLMC_TOKENIZER_MAGIC "LLMCTOKN" /* 8 bytes, no terminator */
#define LLMC_TOKENIZER_MAJOR 0u
#define LLMC_TOKENIZER_MINOR 1u

/* Model flags. */
#define LLMC_BPE_BYTE_FALLBACK 1u /* a character outside the vocabulary becomes <0xNN> tokens */
#define LLMC_BPE_FUSE_UNK 2u      /* neighbouring unknown characters become one unknown token */
#define LLMC_BPE_IGNORE_MERGES 4u /* a piece that is a token as a whole is not split */

typedef struct llmc_tokenizer_header {
  char magic[8];
  uint32_t version_major;
  uint32_t version_minor;
  uint64_t file_size;
  uint32_t model_flags;
  uint32_t unk_token;          /* id, or LLMC_NONE */
  llmc_str continuing_prefix;  /* put before each character of a piece but the first */
  llmc_str end_of_word_suffix; /* put after the last character of a piece */
  llmc_table strings;          /* bytes */
  llmc_table tokens;           /* llmc_str per id */
  llmc_table token_flags;      /* uint8_t per id: LLMC_TOKEN_* */
  llmc_table vocab_slots;   /* uint32_t id or LLMC_NONE, open addressing; count is a power of two */
  llmc_table merges;        /* llmc_merge_record; index = rank */
  llmc_table merge_slots;   /* uint32_t rank or LLMC_NONE, open addressing, power of two */
  llmc_table added;         /* llmc_added_token_record, sorted by text */
  llmc_table normalizers;   /* llmc_text_step_record */
  llmc_table pretokenizers; /* llmc_text_step_record */
  llmc_table decoders;      /* llmc_text_step_record */
  llmc_table prefix_ids;    /* uint32_t: put before an encoded text */
  llmc_table suffix_ids;    /* uint32_t: put after it */
} llmc_tokenizer_header;
LLMC_STATIC_ASSERT(sizeof(llmc_tokenizer_header) == 48 + 12 * 16);

#define LLMC_TOKEN_SPECIAL 1u /* left out of decoded text on request */
#define LLMC_TOKEN_ABSENT 2u  /* no token has this id */

/* Tokens `left` `right` become token `result`. */
typedef struct llmc_merge_record {
  uint32_t left;
  uint32_t right;
  uint32_t result;
} llmc_merge_record;
LLMC_STATIC_ASSERT(sizeof(llmc_merge_record) == 12);

/* A token that is found in text before the model sees it. */
#define LLMC_ADDED_SINGLE_WORD 1u /* only between non-word characters */
#define LLMC_ADDED_LSTRIP 2u      /* takes the white space before it */
#define LLMC_ADDED_RSTRIP 4u      /* takes the white space after it */
#define LLMC_ADDED_NORMALIZED 8u  /* its normalized text is looked for in normalized text */
typedef struct llmc_added_token_record {
  llmc_str text;
  uint32_t id;
  uint32_t flags;
} llmc_added_token_record;
LLMC_STATIC_ASSERT(sizeof(llmc_added_token_record) == 16);

/* One step over text; which of a, b, x, y it uses is said beside each kind. Regular expressions are
 * PCRE2 patterns for UTF | UCP | MULTILINE. */
enum {
  /* normalizers */
  LLMC_NORMALIZE_NFC = 1,
  LLMC_NORMALIZE_NFD = 2,
  LLMC_NORMALIZE_NFKC = 3,
  LLMC_NORMALIZE_NFKD = 4,
  LLMC_NORMALIZE_LOWERCASE = 5,
  LLMC_NORMALIZE_STRIP = 6,          /* white space: x = at the start, y = at the end */
  LLMC_NORMALIZE_STRIP_ACCENTS = 7,  /* drops combining marks */
  LLMC_NORMALIZE_PREPEND = 8,        /* a, unless the text is empty */
  LLMC_NORMALIZE_REPLACE = 9,        /* text a by b */
  LLMC_NORMALIZE_REPLACE_REGEX = 10, /* matches of a by b */
  /* pre-tokenizers */
  LLMC_SPLIT_TEXT = 20,     /* at text a: x = LLMC_SPLIT_* behaviour, y = 1: at what lies between */
  LLMC_SPLIT_REGEX = 21,    /* at matches of a: x, y as above */
  LLMC_PREFIX_SPACE = 22,   /* a piece that does not start with a space gets one */
  LLMC_BYTES_TO_CHARS = 23, /* each byte becomes GPT-2's printable character for it */
  LLMC_METASPACE = 24,      /* ' ' becomes a; x = LLMC_PREPEND_*: a put before a piece lacking it */
  /* decoders */
  LLMC_DECODE_REPLACE = 40,        /* text a by b */
  LLMC_DECODE_REPLACE_REGEX = 41,  /* matches of a by b */
  LLMC_DECODE_BYTE_FALLBACK = 42,  /* runs of <0xNN> become bytes */
  LLMC_DECODE_FUSE = 43,           /* later steps see one text instead of tokens */
  LLMC_DECODE_STRIP = 44,          /* character a: at most x at the start, y at the end */
  LLMC_DECODE_CHARS_TO_BYTES = 45, /* undoes BYTES_TO_CHARS over all tokens at once */
  LLMC_DECODE_METASPACE = 46,      /* a becomes ' '; x = 1: is dropped in the first token */
  LLMC_DECODE_JOIN_SPACE = 47,     /* a space between tokens */
};
enum {
  LLMC_SPLIT_REMOVED = 0,
  LLMC_SPLIT_ISOLATED = 1,
  LLMC_SPLIT_MERGED_WITH_PREVIOUS = 2,
  LLMC_SPLIT_MERGED_WITH_NEXT = 3,
  LLMC_SPLIT_CONTIGUOUS = 4,
};
enum { LLMC_PREPEND_NEVER = 0, LLMC_PREPEND_FIRST = 1, LLMC_PREPEND_ALWAYS = 2 };
typedef struct llmc_text_step_record {
  uint32_t kind;
  uint32_t x;
  uint32_t y;
  uint32_t reserved;
  llmc_str a;
  llmc_str b;
} llmc_text_step_record;
LLMC_STATIC_ASSERT(sizeof(llmc_text_step_record) == 32);

/* Slot where the search for a vocabulary string starts (then the next, wrapping): FNV-1a with a
 * final mix, masked by count - 1. */
static inline uint32_t llmc_vocab_hash(const char *text, uint64_t size) {
  uint32_t hash = 2166136261u;
  for (uint64_t i = 0; i < size; ++i)
    hash = (hash ^ (unsigned char)text[i]) * 16777619u;
  hash ^= hash >> 15;
  return hash * 2654435769u ^ hash >> 13;
}

/* The same for a pair of tokens. */
static inline uint32_t llmc_merge_hash(uint32_t left, uint32_t right) {
  uint64_t key = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
  return (uint32_t)(key >> 32) ^ (uint32_t)(key >> 11);
}

#ifdef __cplusplus
} // extern "C"
#endif

#endif // LLMC_RUNTIME_ABI_TOKENIZER_FORMAT_H
