// SPDX-License-Identifier: Apache-2.0
// The lines of limiters, as bloom/table.go has them: the same places, the same answers.
#pragma once

#include "hash.h"

#define LANES 31u // limiters of a line; the last lane of its 32 is the time counter
#define TIME_SHIFT 48
#define EVERY_LANE 0x0001000100010001ULL
#define MAX_TOKENS 0xffffULL

// How often a compare-and-swap is tried again that another CPU was quicker at. After that the limiter counts as empty, and what
// was to be given is lost: never is more granted than there is.
#define TRIES 8

// More than all limiters of a source hold: a line among theirs is stale.
#define STALE (1u << 30)

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

static __always_inline struct line *line_at(u32 base, u32 place)
{
	u32 index = base + (place >> 5);
	return bpf_map_lookup_elem(&lines, &index);
}

static __always_inline u64 load(const u64 *word)
{
	return *(const volatile u64 *)word;
}

// The two halves of a hash choose line and lane.
static __always_inline u32 place_of(u64 x, u32 nlines)
{
	u32 line = (u64)(u32)x * nlines >> 32;
	u32 lane = (x >> 32) * LANES >> 32;
	return line << 5 | lane;
}

// spend takes tokens from one limiter if it has them.
static __always_inline bool spend(struct line *line, u32 place, u32 tokens, u32 capacity)
{
	u64 *word = &line->words[place >> 2 & 7];
	u32 shift = (place & 3) * 16;
	u64 old = load(word);
	KEEP_LOOP
	for (int i = 0; i < TRIES; i++) {
		if ((old >> shift & MAX_TOKENS) + tokens > capacity)
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
__noinline u32 spend_up_to(u32 base, u32 place, u32 tokens, u32 capacity)
{
	struct line *line = line_at(base, place);
	if (!line)
		return 0;
	u64 *word = &line->words[place >> 2 & 7];
	u32 shift = (place & 3) * 16;
	u64 old = load(word);
	KEEP_LOOP
	for (int i = 0; i < TRIES; i++) {
		u32 spent = old >> shift & MAX_TOKENS;
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
__noinline u32 give_up_to(u32 base, u32 place, u32 tokens)
{
	struct line *line = line_at(base, place);
	if (!line)
		return 0;
	u64 *word = &line->words[place >> 2 & 7];
	u32 shift = (place & 3) * 16;
	u64 old = load(word);
	KEEP_LOOP
	for (int i = 0; i < TRIES; i++) {
		u64 back = old >> shift & MAX_TOKENS; // a refill may have been quicker
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

// fill takes due from each of the four lanes of a word, down to zero: four saturating subtractions in one.
static __always_inline u64 fill(u64 word, u64 due)
{
	const u64 top = EVERY_LANE * 0x8000;
	u64 d = due * EVERY_LANE;
	u64 diff = (word | top) - (d & ~top);
	u64 negative = ((~word & d) | (~(word ^ d) & ~diff)) & top;
	diff ^= (word ^ ~d) & top;
	return diff & ~((negative >> 15) * MAX_TOKENS);
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

// refill_line gives every limiter of a line what it is owed at a time unit, and reports whether it was owed anything. The time
// counter is claimed first, in one step with the three limiters that share its word: of several who try, one refills.
__noinline int refill_line(u32 index, u64 last, u64 unit, u32 per_unit)
{
	struct line *line = bpf_map_lookup_elem(&lines, &index);
	if (!line)
		return false;
	u16 stamp = last >> TIME_SHIFT;
	u64 passed = (u16)((u16)unit - stamp);
	if (passed == 0)
		return false;
	u64 due = passed * per_unit;
	if (due > MAX_TOKENS)
		due = MAX_TOKENS;
	bool claimed = false;
	KEEP_LOOP
	for (int i = 0; i < TRIES; i++) {
		u64 next = fill(last & ~(MAX_TOKENS << TIME_SHIFT), due) | unit << TIME_SHIFT;
		u64 was = __sync_val_compare_and_swap(&line->words[7], last, next);
		if (was == last) {
			claimed = true;
			break;
		}
		if ((u16)(was >> TIME_SHIFT) != stamp)
			return true; // another CPU refills it
		last = was;
	}
	if (!claimed)
		return false;
	KEEP_LOOP
	for (int w = 0; w < 7; w++) {
		u64 old = load(&line->words[w]);
		KEEP_LOOP
		for (int i = 0; i < TRIES; i++) {
			u64 next = fill(old, due);
			if (next == old)
				break;
			u64 was = __sync_val_compare_and_swap(&line->words[w], old, next);
			if (was == old)
				break;
			old = was;
		}
	}
	return true;
}

// apart moves a place on until it is none of the first n, which happens at most n times.
static __always_inline u32 apart(u32 p, const u32 *places, u32 n)
{
	KEEP_LOOP
	for (u32 i = 0; i < n; i++) {
		u64 found = 0;
		KEEP_LOOP
		for (u32 j = 0; j < n; j++) {
			u64 differ = places[j] ^ p;
			UNKNOWN(differ);
			found |= differ - 1; // the top bit tells; a branch for each would have the verifier follow all of them
		}
		if (!(found >> 63))
			break;
		if ((++p & 31) == LANES)
			p -= LANES;
	}
	return p;
}

// another is where limiter i > 0 of a source is, before it is set apart from the others.
static __always_inline u32 another(u64 h, u32 i, u32 nlines)
{
	u64 x = h + (u64)i * 0x9e3779b97f4a7c15ULL;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return place_of(x ^ x >> 31, nlines);
}

// unit_now is the time unit of a half.
static __always_inline u64 unit_now(u32 level, u32 half)
{
	u64 now = clock_ns(), origin = state.half[level][half].origin;
	return now > origin ? (now - origin) / config.level[level].unit_ns : 0;
}

// A line is stale when so much time has passed since its time counter was set that it has to be filled first.
static __always_inline bool is_stale(u64 word, u64 unit, u32 stale)
{
	return (u16)((u16)unit - (u16)(word >> TIME_SHIFT)) >= stale;
}

// left is what a limiter has, without what is due.
static __always_inline u32 left(const struct line *line, u32 place, u32 capacity)
{
	u32 spent = load(&line->words[place >> 2 & 7]) >> (place & 3) * 16 & MAX_TOKENS;
	return spent < capacity ? capacity - spent : 0;
}

// A flood spends its time here, so this is written out: the compiler does not unroll a loop that it may leave at any turn.
#define EACH_LIMITER(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

// Where limiter i is. The places are kept on the stack, `seen` has their last bits: most are told apart by them.
#define PLACE(i)                                                                                \
	if (i < k) {                                                                            \
		places[i] = i == 0 ? place_of(h, nlines) : another(h, i, nlines);               \
		if (i > 0 && seen >> (places[i] & 63) & 1)                                      \
			places[i] = apart(places[i], places, i);                                \
		seen |= 1ULL << (places[i] & 63);                                               \
	}

// take_other goes on when the first limiter has too little, or its line is stale. It returns the number of the limiter that gave the
// last of the tokens, from 1, or 0. To drain it takes what there is.
__noinline u32 take_other(u64 h, u32 level, u32 half, u32 tokens, u32 drain)
{
	level &= MAX_LEVELS - 1;
	half &= 1;
	u32 base = config.level[level].base[half];
	u32 capacity = config.level[level].capacity;
	u32 nlines = config.level[level].lines;
	u32 stale = config.level[level].stale;
	u32 k = config.k;
	u32 places[MAX_K];
	u64 seen = 0;
	// The words with the time counters, read before the clock is. Volatile keeps them out of registers, of which there are few.
	volatile u64 last[MAX_K];
	u64 unit = unit_now(level, half);
	u32 all = 0, needed = tokens, most = capacity;
	if (tokens > capacity * k) {
		// More than all limiters hold is granted when they are full, and they owe the rest.
		needed = capacity * k;
		most = config.level[level].share;
	}

	// As long as no line is stale, only as many limiters are looked at as it takes.
#define LOOK_AT(i)                                                                              \
	PLACE(i)                                                                                \
	if (i < k) {                                                                            \
		struct line *line = line_at(base, places[i]);                                   \
		if (!line)                                                                      \
			return 0;                                                               \
		last[i] = read_stamp(line);                                                     \
		if (is_stale(last[i], unit, stale))                                             \
			all = STALE;                                                            \
		if (all < STALE) {                                                              \
			all += left(line, places[i], capacity);                                 \
			if (all >= needed) {                                                    \
				k = i + 1;                                                      \
				goto enough;                                                    \
			}                                                                       \
		}                                                                               \
	}
	EACH_LIMITER(LOOK_AT)
	u32 per_unit = config.level[level].per_unit;
	unit = unit_now(level, half);
#define REFILL(i)                                                                               \
	if (i < k) {                                                                            \
		u64 word = last[i];                                                             \
		if ((u16)(word >> TIME_SHIFT) != (u16)unit)                                     \
			refill_line(base + (places[i] >> 5), word, unit, per_unit);             \
	}
	EACH_LIMITER(REFILL)
	if (!drain) {
		all = 0;
#define ADD_UP(i)                                                                               \
		if (i < k) {                                                                    \
			struct line *line = line_at(base, places[i]);                           \
			if (line)                                                               \
				all += left(line, places[i], capacity);                         \
		}
		EACH_LIMITER(ADD_UP)
		if (all < needed)
			return 0;
	}
enough:;
	u32 taken[MAX_K] = {};
#define SPEND(i)                                                                                \
	if (i < k) {                                                                            \
		taken[i] = spend_up_to(base, places[i], tokens, most);                          \
		tokens -= taken[i];                                                             \
		if (tokens == 0)                                                                \
			return i + 1;                                                           \
	}
	EACH_LIMITER(SPEND)
	if (drain)
		return 0;
#define UNDO(i)                                                                                 \
	if (i < k)                                                                              \
		give_up_to(base, places[i], taken[i]);
	EACH_LIMITER(UNDO) // another CPU was quicker
	return 0;
}

// take asks for tokens for the network with a hash and returns the number of the limiter that gave the last of them, from 1, or 0.
static __always_inline u32 take(u32 level, u32 half, u64 h, u32 tokens, u32 drain)
{
	const volatile struct figures *f = &config.level[level];
	u32 first = place_of(h, f->lines);
	struct line *line = line_at(f->base[half], first);
	if (line) {
		u64 word = read_stamp(line);
		if (!is_stale(word, unit_now(level, half), f->stale) && spend(line, first, tokens, f->capacity))
			return 1;
	}
	return take_other(h, level, half, tokens, drain);
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
	u32 base = config.level[level].base[half];
	u32 nlines = config.level[level].lines;
	u32 k = config.k;
	u32 places[MAX_K];
	u64 seen = 0;
	EACH_LIMITER(PLACE)
#define GIVE(i)                                                                                 \
	if (i < k && i < from && tokens)                                                        \
		tokens -= give_up_to(base, places[i], tokens);
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
