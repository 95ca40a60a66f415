// Who may see whom in attention, as the kernels of every target, their cost and their references share it. A
// mask answers for one query, or for one key, with a range of tokens of the other side. Neither end of a
// range decreases from one token to the next, so that a tile's range follows from its first and last token.
// `shape` has the sequence's `tokens`, and what else a mask reads.
#pragma once
#include <cstdint>

#include "hydrac/math.h"

namespace hydrac {

// Tokens [first, end) of a sequence.
struct TokenRange {
  int first, end;
};

// The shape of a sequence of several documents, for DocumentMask: token t belongs to the document of tokens
// [documents[2 * t], documents[2 * t + 1]).
template <class Shape>
struct Packed : Shape {
  const std::int32_t* documents;
};

// Every query sees every key.
struct FullMask {
  static constexpr bool hides_later = false;    // keys after the query
  static constexpr bool hides_earlier = false;  // keys long before the query
  static constexpr bool has_documents = false;  // several in a sequence

  template <class Shape>
  HYDRAC_FN static constexpr bool sees(const Shape&, int, int) {
    return true;
  }
  template <class Shape>
  HYDRAC_FN static constexpr TokenRange keys_of(const Shape& shape, int) {
    return {0, static_cast<int>(shape.tokens)};
  }
  template <class Shape>
  HYDRAC_FN static constexpr TokenRange queries_of(const Shape& shape, int) {
    return {0, static_cast<int>(shape.tokens)};
  }
};

// A query sees its own token and those before it.
struct CausalMask {
  static constexpr bool hides_later = true;
  static constexpr bool hides_earlier = false;
  static constexpr bool has_documents = false;

  template <class Shape>
  HYDRAC_FN static constexpr bool sees(const Shape&, int query, int key) {
    return key <= query;
  }
  template <class Shape>
  HYDRAC_FN static constexpr TokenRange keys_of(const Shape&, int query) {
    return {0, query + 1};
  }
  template <class Shape>
  HYDRAC_FN static constexpr TokenRange queries_of(const Shape& shape, int key) {
    return {key, static_cast<int>(shape.tokens)};
  }
};

// A query sees the last shape.window tokens, its own among them.
struct WindowMask {
  static constexpr bool hides_later = true;
  static constexpr bool hides_earlier = true;
  static constexpr bool has_documents = false;

  template <class Shape>
  HYDRAC_FN static constexpr bool sees(const Shape& shape, int query, int key) {
    return key <= query && query - key < static_cast<int>(shape.window);
  }
  template <class Shape>
  HYDRAC_FN static constexpr TokenRange keys_of(const Shape& shape, int query) {
    const int first = query - static_cast<int>(shape.window) + 1;
    return {first > 0 ? first : 0, query + 1};
  }
  template <class Shape>
  HYDRAC_FN static constexpr TokenRange queries_of(const Shape& shape, int key) {
    const int tokens = static_cast<int>(shape.tokens), window = static_cast<int>(shape.window);
    return {key, tokens - key > window ? key + window : tokens};
  }
};

// A query sees what `Within` shows it of its own document. The end of a document does not decrease from one
// token to the next either. Of tokens past the sequence the last document is taken, for tiles that reach over
// its end.
template <class Within>
struct DocumentMask {
  static constexpr bool hides_later = Within::hides_later;
  static constexpr bool hides_earlier = true;
  static constexpr bool has_documents = true;

  template <class Shape>
  HYDRAC_FN static constexpr bool sees(const Shape& shape, int query, int key) {
    const TokenRange document = document_of(shape, query);
    return document.first <= key && key < document.end && Within::sees(shape, query, key);
  }
  template <class Shape>
  HYDRAC_FN static constexpr TokenRange keys_of(const Shape& shape, int query) {
    return common(Within::keys_of(shape, query), document_of(shape, query));
  }
  template <class Shape>
  HYDRAC_FN static constexpr TokenRange queries_of(const Shape& shape, int key) {
    return common(Within::queries_of(shape, key), document_of(shape, key));
  }

 private:
  template <class Shape>
  HYDRAC_FN static constexpr TokenRange document_of(const Shape& shape, int token) {
    const int last = static_cast<int>(shape.tokens) - 1, at = token < last ? token : last;
    return {shape.documents[2 * at], shape.documents[2 * at + 1]};
  }
  HYDRAC_FN static constexpr TokenRange common(TokenRange a, TokenRange b) {
    return {a.first > b.first ? a.first : b.first, a.end < b.end ? a.end : b.end};
  }
};

// The keys that any of the queries first_query to last_query sees.
template <class Mask, class Shape>
HYDRAC_FN constexpr TokenRange keys_of_any(const Shape& shape, int first_query, int last_query) {
  return {Mask::keys_of(shape, first_query).first, Mask::keys_of(shape, last_query).end};
}

// The keys that all of them see; there may be none.
template <class Mask, class Shape>
HYDRAC_FN constexpr TokenRange keys_of_all(const Shape& shape, int first_query, int last_query) {
  return {Mask::keys_of(shape, last_query).first, Mask::keys_of(shape, first_query).end};
}

// The queries that see any of the keys first_key to last_key.
template <class Mask, class Shape>
HYDRAC_FN constexpr TokenRange queries_of_any(const Shape& shape, int first_key, int last_key) {
  return {Mask::queries_of(shape, first_key).first, Mask::queries_of(shape, last_key).end};
}

// True if each query of a tile sees each of its keys: then no element needs to be tested.
template <class Mask, class Shape>
HYDRAC_FN constexpr bool sees_all(const Shape& shape, TokenRange queries, TokenRange keys) {
  const TokenRange seen = keys_of_all<Mask>(shape, queries.first, queries.end - 1);
  return keys.end <= seen.end && (!Mask::hides_earlier || seen.first <= keys.first);
}

// True if any query of a tile sees any of its keys.
template <class Mask, class Shape>
HYDRAC_FN constexpr bool sees_any(const Shape& shape, TokenRange queries, TokenRange keys) {
  const TokenRange seen = keys_of_any<Mask>(shape, queries.first, queries.end - 1);
  return keys.first < seen.end && (!Mask::hides_earlier || seen.first < keys.end);
}

// How many (query, key) pairs of a sequence are visible.
template <class Mask, class Shape>
constexpr std::int64_t visible_pairs(const Shape& shape) {
  std::int64_t pairs = 0;
  for (int query = 0; query < static_cast<int>(shape.tokens); ++query) {
    const TokenRange keys = Mask::keys_of(shape, query);
    pairs += keys.end - keys.first;
  }
  return pairs;
}

}  // namespace hydrac
