// SPDX-License-Identifier: Apache-2.0
// The lines of limiters, as bloom/table.go has them: the same places, the same answers.
#pragma once

#include "hash.h"

#define LINE_BYTES 64
#define TIME_AT (LINE_BYTES - 2) // where the time counter of a line is; limiters are before it
#define TIME_SHIFT 48            // and in the last word
#define TIME_MASK 0xffffULL

// How often a compare-and-swap is tried again that another CPU was quicker at. After that the limiter counts as empty, and what
// was to be given is lost: never is more granted than there is.
#define TRIES 8

struct line {
	u64 words[8];
};

// The memory of a map that can be mapped begins at a page, so that a value of 64 bytes is a cache line.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); // set before it is loaded
	__type(key, u32);
	__type(value, struct line);
} lines SEC(".maps");

// A place is the byte of a table that a limiter begins with.
static __always_inline struct line *line_at(u32 base, u32 place)
{
	u32 index = base + place / LINE_BYTES;
	return bpf_map_lookup_elem(&lines, &index);
}

static __always_inline u64 load(const u64 *word)
{
	return *(const volatile u64 *)word;
}

// The two halves of a hash choose line and lane.
static __always_inline u32 place_of(u64 x, const volatile struct figures *f)
{
	u32 line = (u64)(u32)x * f->lines >> 32;
	u32 lane = (x >> 32) * f->lanes >> 32;
	return line * LINE_BYTES + lane * f->bytes;
}

// mask is what a limiter can count to.
static __always_inline u64 mask_of(u32 bytes)
{
	return bytes == 1 ? 0xff : 0xffff;
}

static __always_inline u64 *word_of(struct line *line, u32 place)
{
	return &line->words[place >> 3 & 7];
}

// spend takes tokens from one limiter if it has them.
static __always_inline bool spend(struct line *line, u32 place, u32 tokens, u32 capacity, u64 mask)
{
	u64 *word = word_of(line, place);
	u32 shift = (place & 7) * 8;
	u64 old = load(word);
	KEEP_LOOP
	for (int i = 0; i < TRIES; i++) {
		if ((old >> shift & mask) + tokens > capacity)
			return false;
		u64 was = __sync_val_compare_and_swap(word, old, old + ((u64)tokens << shift));
		if (was == old)
			return true;
		old = was;
	}
	return false;
}

// spend_up_to takes at most so many tokens from one limiter, and returns how many. Functions that are not static are checked by the
// verifier once, and not again for each way that leads to them.
__noinline u32 spend_up_to(u32 base, u32 place, u32 tokens, u32 capacity, u64 mask)
{
	struct line *line = line_at(base, place);
	if (!line)
		return 0;
	u64 *word = word_of(line, place);
	u32 shift = (place & 7) * 8;
	u64 old = load(word);
	KEEP_LOOP
	for (int i = 0; i < TRIES; i++) {
		u32 spent = old >> shift & mask;
		if (spent >= capacity || tokens == 0)
			return 0;
		u32 take = capacity - spent;
		if (take > tokens)
			take = tokens;
		u64 was = __sync_val_compare_and_swap(word, old, old + ((u64)take << shift));
		if (was == old)
			return take;
		old = was;
	}
	return 0;
}

// give_up_to returns tokens to one limiter, and how many it took.
__noinline u32 give_up_to(u32 base, u32 place, u32 tokens, u64 mask)
{
	struct line *line = line_at(base, place);
	if (!line)
		return 0;
	u64 *word = word_of(line, place);
	u32 shift = (place & 7) * 8;
	u64 old = load(word);
	KEEP_LOOP
	for (int i = 0; i < TRIES; i++) {
		u64 back = old >> shift & mask; // a refill may have been quicker
		if (back > tokens)
			back = tokens;
		if (back == 0)
			return 0;
		u64 was = __sync_val_compare_and_swap(word, old, old - (back << shift));
		if (was == old)
			return back;
		old = was;
	}
	return 0;
}

// fill takes due from each lane of a word, down to zero: several saturating subtractions in one.
static __always_inline u64 fill(u64 word, u64 due, u32 bytes)
{
	const u64 mask = mask_of(bytes), every = bytes == 1 ? ~0ULL / 0xff : ~0ULL / 0xffff;
	const u64 top = every << (bytes == 1 ? 7 : 15);
	u64 d = due * every;
	u64 diff = (word | top) - (d & ~top);
	u64 negative = ((~word & d) | (~(word ^ d) & ~diff)) & top;
	diff ^= (word ^ ~d) & top;
	return diff & ~((negative >> (bytes == 1 ? 7 : 15)) * mask);
}

// read_stamp reads the word with the time counter, before the clock is read: then no counter is ahead of the clock. x86 keeps
// the order of reads by itself; elsewhere an atomic operation does.
static __always_inline u64 read_stamp(struct line *line)
{
#ifdef __TARGET_ARCH_x86
	return load(&line->words[7]);
#else
	return __sync_fetch_and_add(&line->words[7], 0);
#endif
}

// refill_line gives every limiter of a line whose time counter was `stamp` what it is owed at a time unit. The counter is claimed
// first, in one step with the limiters that share its word: of several who try, one refills.
__noinline int refill_line(u32 index, u32 stamp, u64 unit, u32 per_unit, u32 bytes)
{
	struct line *line = bpf_map_lookup_elem(&lines, &index);
	if (!line)
		return 0;
	u64 due = (u64)(u16)(unit - stamp) * per_unit;
	if (due > mask_of(bytes))
		due = mask_of(bytes);
	bool claimed = false;
	u64 last = load(&line->words[7]);
	KEEP_LOOP
	for (int i = 0; i < TRIES; i++) {
		if ((u16)(last >> TIME_SHIFT) != (u16)stamp)
			return 0; // another CPU refills it
		u64 next = fill(last & ~(TIME_MASK << TIME_SHIFT), due, bytes) | unit << TIME_SHIFT;
		u64 was = __sync_val_compare_and_swap(&line->words[7], last, next);
		if (was == last) {
			claimed = true;
			break;
		}
		last = was;
	}
	if (!claimed)
		return 0;
	KEEP_LOOP
	for (int w = 0; w < 7; w++) {
		u64 old = load(&line->words[w]);
		KEEP_LOOP
		for (int i = 0; i < TRIES; i++) {
			u64 next = fill(old, due, bytes);
			if (next == old)
				break;
			u64 was = __sync_val_compare_and_swap(&line->words[w], old, next);
			if (was == old)
				break;
			old = was;
		}
	}
	return 0;
}

// among reports whether a place is one of the first n. A branch for each would have the verifier follow all of them, and the
// processor guess.
static __always_inline bool among(u32 p, const u32 *places, u32 n)
{
	u64 found = 0;
	for (u32 i = 0; i < n; i++) {
		u64 differ = places[i] ^ p;
		UNKNOWN(differ);
		found |= differ - 1; // the top bit tells
	}
	return found >> 63;
}

// apart moves a place on until it is none of the first n, which happens at most n times.
static __always_inline u32 apart(u32 p, const u32 *places, u32 n, u32 bytes)
{
	KEEP_LOOP
	for (u32 i = 0; i < n && among(p, places, n); i++) {
		p += bytes;
		if (p % LINE_BYTES == TIME_AT)
			p -= TIME_AT;
	}
	return p;
}

// another is where limiter i > 0 of a source is, before it is set apart from the others.
static __always_inline u32 another(u64 h, u32 i, const volatile struct figures *f)
{
	u64 x = h + (u64)i * 0x9e3779b97f4a7c15ULL;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return place_of(x ^ x >> 31, f);
}

// unit_now is the time unit of a half.
static __always_inline u64 unit_now(u32 level, u32 half)
{
	u64 now = clock_ns(), origin = state.half[level][half].origin;
	return now > origin ? (now - origin) / config.level[level].unit_ns : 0;
}

// A line is stale when so much time has passed since its time counter was set that it has to be filled first.
static __always_inline bool is_stale(u16 stamp, u64 unit, u32 stale)
{
	return (u16)((u16)unit - stamp) >= stale;
}

// left is what a limiter has, without what is due.
static __always_inline u32 left(struct line *line, u32 place, const volatile struct figures *f)
{
	u32 spent = load(word_of(line, place)) >> (place & 7) * 8 & mask_of(f->bytes), capacity = f->capacity;
	return spent < capacity ? capacity - spent : 0;
}

// A flood spends its time here, so this is written out: the compiler does not unroll a loop that it may leave at any turn.
#define EACH_LIMITER(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

// Where limiter i is.
#define PLACE(i)                                                                                \
	if (i < k)                                                                              \
		places[i] = i == 0 ? place_of(h, f) : apart(another(h, i, f), places, i, f->bytes);

// take_other goes on when the first limiter has too little, or its line is stale, at a time unit. It returns the number of the limiter
// that gave the last of the tokens, from 1, or 0. To drain it takes what there is.
__noinline u32 take_other(u64 h, u32 level, u64 half_drain, u32 tokens, u64 unit)
{
	level &= MAX_LEVELS - 1;
	u32 half = half_drain & 1, drain = half_drain >> 32;
	const volatile struct figures *f = &config.level[level];
	u32 base = f->base[half];
	u32 k = config.k;
	u32 places[MAX_K];
	// The time counters, and below them what limiters have; later, what was taken. Volatile keeps them out
	// of registers, of which there are few.
	volatile u32 found[MAX_K];

	// All lines are fetched before the first is looked at: the processor waits for memory once.
#define FETCH(i)                                                                                \
	PLACE(i)                                                                                \
	if (i < k) {                                                                            \
		struct line *line = line_at(base, places[i]);                                   \
		if (!line)                                                                      \
			return 0;                                                               \
		u32 stamp = read_stamp(line) >> TIME_SHIFT;                                     \
		found[i] = stamp << 16 | left(line, places[i], f);                              \
	}
	EACH_LIMITER(FETCH)
	// More than all limiters hold is granted when they are full, and they owe the rest.
	u32 full = f->capacity * k, needed = tokens < full ? tokens : full;
	u32 stale = f->stale, differ = 0, all = 0;
	// As long as no line is stale, only as many limiters are used as it takes.
#define LOOK_AT(i)                                                                              \
	if (i < k) {                                                                            \
		u32 was = found[i];                                                             \
		differ |= was >> 16 ^ (u16)unit;                                                \
		if (is_stale(was >> 16, unit, stale))                                           \
			goto refill;                                                            \
		all += was & 0xffff;                                                            \
		if (all >= needed) {                                                            \
			k = i + 1;                                                              \
			goto enough;                                                            \
		}                                                                               \
	}
	EACH_LIMITER(LOOK_AT)
	if (!differ && !drain)
		return 0; // nothing is due: a flood is dropped here
refill:;
	u32 per_unit = f->per_unit, bytes = f->bytes;
	unit = unit_now(level, half); // again: what was read of the lines may be newer than the last time
#define REFILL(i)                                                                               \
	if (i < k) {                                                                            \
		u16 stamp = found[i] >> 16;                                                     \
		if (stamp != (u16)unit)                                                         \
			refill_line(base + places[i] / LINE_BYTES, stamp, unit, per_unit, bytes); \
	}
	EACH_LIMITER(REFILL)
	if (!drain) {
		all = 0;
#define ADD_UP(i)                                                                               \
		if (i < k) {                                                                    \
			struct line *line = line_at(base, places[i]);                           \
			if (line)                                                               \
				all += left(line, places[i], f);                                \
		}
		EACH_LIMITER(ADD_UP)
		if (all < needed)
			return 0;
	}
enough:;
	u32 most = needed < tokens ? f->share : f->capacity;
	u64 mask = mask_of(f->bytes);
#define SPEND(i)                                                                                \
	if (i < k) {                                                                            \
		u32 taken = spend_up_to(base, places[i], tokens, most, mask);                   \
		found[i] = taken;                                                               \
		tokens -= taken;                                                                \
		if (tokens == 0)                                                                \
			return i + 1;                                                           \
	}
	EACH_LIMITER(SPEND)
	if (drain)
		return 0;
#define UNDO(i)                                                                                 \
	if (i < k)                                                                              \
		give_up_to(base, places[i], found[i], mask);
	EACH_LIMITER(UNDO) // another CPU was quicker
	return 0;
}

// take asks for tokens for the network with a hash and returns the number of the limiter that gave the last of them, from 1, or 0.
static __always_inline u32 take(u32 level, u32 half, u64 h, u32 tokens, u32 drain)
{
	const volatile struct figures *f = &config.level[level];
	u64 first = place_of(h, f);
	struct line *line = line_at(f->base[half], first);
	if (!line)
		return 0;
	u16 stamp = read_stamp(line) >> TIME_SHIFT; // before the clock: so it is not ahead of it
	u64 unit = unit_now(level, half);
	if (!is_stale(stamp, unit, f->stale) && spend(line, first, tokens, f->capacity, mask_of(f->bytes)))
		return 1;
	return take_other(h, level, half | (u64)drain << 32, tokens, unit);
}

// take_one takes for an IPv4 network or a group: their limiters are on the first level.
static __always_inline u32 take_one(u32 half, u64 network, u32 tokens, u32 drain)
{
	return take(0, half, hash(&state.half[0][half], 0, 0, network, false), tokens, drain);
}

// charge_one takes from the half that will take over, whatever comes of it: so it never has more than the one that decides.
__noinline int charge_one(u32 half, u64 network, u32 tokens)
{
	take_one(half & 1, network, tokens, true);
	return 0;
}

// take_v6 takes for an IPv6 network from one level, and charges the half that will take over.
__noinline u32 take_v6(u32 level, u64 control, u64 high, u64 low, u32 tokens)
{
	level &= MAX_LEVELS - 1;
	u32 half = control & CONTROL_HALF, bits = config.level[level].v6_bits;
	if (control & CONTROL_CHARGE)
		take(level, half ^ 1, hash_v6(&state.half[level][half ^ 1], high, low, bits), tokens, true);
	return take(level, half, hash_v6(&state.half[level][half], high, low, bits), tokens, false);
}

// give returns tokens to the limiters of a hash, from the one that gave the last of them backwards.
__noinline int give(u64 h, u32 level, u32 half, u32 from, u32 tokens)
{
	level &= MAX_LEVELS - 1;
	half &= 1;
	const volatile struct figures *f = &config.level[level];
	u32 base = f->base[half];
	u64 mask = mask_of(f->bytes);
	u32 k = config.k;
	u32 places[MAX_K];
	EACH_LIMITER(PLACE)
#define GIVE(i)                                                                                 \
	if (i < k && i < from && tokens)                                                        \
		tokens -= give_up_to(base, places[i], tokens, mask);
	GIVE(7) GIVE(6) GIVE(5) GIVE(4) GIVE(3) GIVE(2) GIVE(1) GIVE(0)
	return 0;
}

// give_v6 returns tokens to the limiters of an IPv6 network on one level. What the half that will take over gave stays spent.
__noinline int give_v6(u32 level, u64 control, u64 high, u64 low, u64 tokens)
{
	level &= MAX_LEVELS - 1;
	u32 half = control & CONTROL_HALF;
	give(hash_v6(&state.half[level][half], high, low, config.level[level].v6_bits), level, half, tokens >> 32, tokens);
	return 0;
}
