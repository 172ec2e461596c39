// SPDX-License-Identifier: Apache-2.0
// SipHash-1-3 of a source network, as throttle/bloom/hash.go has it.
#pragma once

#include "config.h"

// Each kind of network has its own length, so that none can be taken for another.
#define LENGTH_V4 5ULL
#define LENGTH_GROUP 6ULL
#define LENGTH_V6 17ULL

#define ROTL(x, n) ((x) << (n) | (x) >> (64 - (n)))

struct sip {
	u64 v0, v1, v2, v3;
};

static __always_inline void sip_round(struct sip *s)
{
	s->v0 += s->v1;
	s->v1 = ROTL(s->v1, 13) ^ s->v0;
	s->v0 = ROTL(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = ROTL(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = ROTL(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = ROTL(s->v1, 17) ^ s->v2;
	s->v2 = ROTL(s->v2, 32);
}

static __always_inline void sip_word(struct sip *s, u64 m)
{
	s->v3 ^= m;
	sip_round(s);
	s->v0 ^= m;
}

// What is hashed of a network is one word, or of IPv6 three: what is left, and the length of the whole in the top byte, is the last.
static __always_inline u64 hash(const volatile struct half *h, u64 a, u64 b, u64 last, bool v6)
{
	u64 k0 = h->key[0], k1 = h->key[1];
	struct sip s = {
		k0 ^ 0x736f6d6570736575ULL,
		k1 ^ 0x646f72616e646f6dULL,
		k0 ^ 0x6c7967656e657261ULL,
		k1 ^ 0x7465646279746573ULL,
	};
	if (v6) {
		sip_word(&s, a);
		sip_word(&s, b);
	}
	sip_word(&s, last);
	s.v2 ^= 0xff;
	sip_round(&s);
	sip_round(&s);
	sip_round(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

static __always_inline u64 network_v4(u32 addr_be, u32 bits)
{
	u32 mask = __builtin_bswap32((u32)(~0ULL << (32 - bits)));
	return (u64)(addr_be & mask) | (u64)bits << 32 | LENGTH_V4 << 56;
}

static __always_inline u64 network_group(u32 number)
{
	return (u64)number | LENGTH_GROUP << 56;
}

// mask_be keeps the first bits of a word that is as on the wire.
static __always_inline u64 mask_be(u64 word, u32 bits)
{
	if (bits == 0)
		return 0;
	return bits >= 64 ? word : word & __builtin_bswap64(~0ULL << (64 - bits));
}

static __always_inline u64 hash_v6(const volatile struct half *h, u64 high_be, u64 low_be, u32 bits)
{
	u64 a = mask_be(high_be, bits), b = bits > 64 ? mask_be(low_be, bits - 64) : 0;
	return hash(h, a, b, (u64)bits | LENGTH_V6 << 56, true);
}
