// SPDX-License-Identifier: Apache-2.0
// The network traffic limiter: drops the packets of sources that are over their limit before they reach the host.
//
//	packet -> read (packet.h) -> watched? -> allowed? banned? (lists.h) -> counted? -> group or networks (hash.h) -> limiters (table.h)

#include "config.h"
#include "hash.h"
#include "lists.h"
#include "packet.h"
#include "table.h"
#include "bench.h"

char program_license[] SEC("license") = "Apache-2.0";

// What became of a packet, and the counter that counts it.
enum outcome {
	PASSED,     // within its limit
	LIMITED,    // over it
	BANNED,
	ALLOWED,
	EXEMPTED,
	UNWATCHED,  // not of what is limited
	MALFORMED,
	TOO_COSTLY, // larger than any burst
	SHADOWED,   // passed though it was limited, banned or too costly
	OUTCOMES,
};

struct tally {
	u64 count[OUTCOMES];
	u64 seed; // of measurements
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct tally);
} counters SEC(".maps");

static __always_inline u32 tokens_of(u32 level, u32 cost)
{
	const volatile struct figures *f = &config.level[level & (MAX_LEVELS - 1)];
	u32 grain = f->grain;
	return (config.mode == MODE_BYTES && grain > 1 ? (cost - 1) / grain + 1 : cost) * f->parts;
}

// Tokens may come from all limiters of a source together.
static __always_inline bool too_costly(u32 level, u32 tokens)
{
	return tokens > config.level[level & (MAX_LEVELS - 1)].share * config.k;
}

// limit_one judges a source that has one level only: an IPv4 network or a group.
static __always_inline enum outcome limit_one(u64 network, u64 control, u32 cost)
{
	u32 half = control & CONTROL_HALF;
	u32 tokens = tokens_of(0, cost);
	if (too_costly(0, tokens))
		return TOO_COSTLY;
	if (!take_one(half, network, tokens, false))
		return LIMITED;
	if (control & CONTROL_CHARGE)
		charge_one(half ^ 1, network, tokens);
	return PASSED;
}

// limit_v6 judges an IPv6 source: it takes from every level, or gives back what the narrower ones gave. The half that will take over
// is charged with what all levels grant, and with nothing else.
static __always_inline enum outcome limit_v6(const struct packet *p, u64 control, u32 cost)
{
	u64 half = control & CONTROL_HALF, from[MAX_LEVELS] = {};
	KEEP_LOOP
	for (u32 i = 0; i < MAX_LEVELS; i++) {
		if (i >= config.levels)
			break;
		u32 tokens = tokens_of(i, cost);
		enum outcome why = LIMITED;
		if (too_costly(i, tokens))
			why = TOO_COSTLY;
		else if ((from[i] = take_v6(i, half, p->src[0], p->src[1], tokens)))
			continue;
		KEEP_LOOP
		for (u32 j = 0; j < i; j++)
			give_v6(j, half, p->src[0], p->src[1], from[j] << 32 | tokens_of(j, cost));
		return why;
	}
	if (control & CONTROL_CHARGE) {
		KEEP_LOOP
		for (u32 i = 0; i < MAX_LEVELS && i < config.levels; i++)
			take_v6(i, (half ^ 1) | 1ULL << 32, p->src[0], p->src[1], tokens_of(i, cost));
	}
	return PASSED;
}

static __always_inline void list_key(struct list_key *key, const u64 *addr, u32 v6)
{
	key->family = v6 ? 6 : 4;
	__builtin_memcpy(key->addr, addr, 16);
}

static __always_inline bool watched_port(const struct packet *p)
{
	if (p->flags & PORT_HIDDEN)
		return true;
	if (!(p->flags & HAS_PORT))
		return false;
	return ports[p->port >> 6 & (PORT_WORDS - 1)] >> (p->port & 63) & 1;
}

// An IPv4 address mapped into IPv6 is the IPv4 address.
static __always_inline void unmap(u64 *addr, u32 *v6)
{
	if (addr[0] == 0 && (u32)addr[1] == bpf_htonl(0xffff)) {
		addr[0] = addr[1] >> 32;
		addr[1] = 0;
		*v6 = 0;
	}
}

static __always_inline enum outcome judge(struct xdp_md *ctx, struct tally *c, u64 control)
{
	struct packet p = {};
	switch (read_packet(ctx, &p)) {
	case PARSED:
		break;
	case NOT_IP:
		return UNWATCHED;
	default:
		return MALFORMED;
	}
	if (config.bench_sources)
		p.src[0] = made_up_source(&c->seed, config.bench_sources);

	if (config.watch_ports && !watched_port(&p))
		return UNWATCHED;
	u32 src_v6 = p.v6;
	if (p.v6)
		unmap(p.src, &src_v6);
	if (config.watch_prefixes) {
		u32 dst_v6 = p.v6;
		struct list_key key;
		if (p.v6)
			unmap(p.dst, &dst_v6);
		list_key(&key, p.dst, dst_v6);
		if (!find(&watched, &key))
			return UNWATCHED;
	}
	if (control & (CONTROL_ALLOW | CONTROL_BAN)) {
		struct list_key key;
		list_key(&key, p.src, src_v6);
		if (control & CONTROL_ALLOW && find(&allow, &key))
			return ALLOWED;
		if (control & CONTROL_BAN && find(&ban, &key))
			return BANNED;
	}
	if (config.mode == MODE_SYN && !(p.flags & IS_SYN))
		return UNWATCHED;
	u32 cost = config.mode == MODE_BYTES ? whole_length(ctx) : 1;
	if (config.have_ranges) {
		struct list_key key;
		list_key(&key, p.src, src_v6);
		struct list_entry *e = find(&ranges, &key);
		if (e) {
			if (e->mark == EXEMPT)
				return EXEMPTED;
			return limit_one(network_group(e->mark), control, cost);
		}
	}
	if (src_v6)
		return limit_v6(&p, control, cost);
	return limit_one(network_v4(p.src[0], config.v4_bits), control, cost);
}

SEC("xdp.frags")
int weir_limit(struct xdp_md *ctx)
{
	u32 zero = 0;
	struct tally *c = bpf_map_lookup_elem(&counters, &zero);
	if (!c)
		return XDP_PASS;
	u64 control = state.control;
	enum outcome what = judge(ctx, c, control);
	c->count[what]++;
	if (what != LIMITED && what != BANNED && what != TOO_COSTLY)
		return XDP_PASS;
	if (control & CONTROL_SHADOW) {
		c->count[SHADOWED]++;
		return XDP_PASS;
	}
	return XDP_DROP;
}
