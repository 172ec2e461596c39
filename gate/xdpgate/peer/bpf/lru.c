// SPDX-License-Identifier: Apache-2.0
// A limit for each source network as it is usually written: a token bucket for each, in a hash map that throws out the least
// recently used. It exists to be measured against.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../../bpf/bench.h"

char program_license[] SEC("license") = "Apache-2.0";

#define NANOSECONDS 1000000000ULL

const volatile __u64 rate = 100; // tokens a second
const volatile __u64 burst = 100;
const volatile __u32 bench_sources = 0;

struct bucket {
	__u64 tokens;
	__u64 updated;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1 << 20);
	__type(key, __u32);
	__type(value, struct bucket);
} buckets SEC(".maps");

struct counters {
	__u64 passed, dropped, seed;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} tally SEC(".maps");

static __always_inline int allowed(__u32 network)
{
	__u64 now = bpf_ktime_get_ns();
	struct bucket *b = bpf_map_lookup_elem(&buckets, &network);
	if (!b) {
		struct bucket fresh = {.tokens = burst - 1, .updated = now};
		bpf_map_update_elem(&buckets, &network, &fresh, BPF_ANY);
		return 1;
	}
	__u64 due = (now - b->updated) * rate / NANOSECONDS;
	if (due > 0) {
		__u64 tokens = b->tokens + due;
		b->tokens = tokens > burst ? burst : tokens;
		b->updated = now;
	}
	if (b->tokens == 0)
		return 0;
	b->tokens--;
	return 1;
}

SEC("xdp")
int lru_limit(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	if ((void *)(ip + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP) || ip->protocol != IPPROTO_TCP)
		return XDP_PASS;
	struct tcphdr *tcp = (void *)ip + ip->ihl * 4;
	if ((void *)(tcp + 1) > end || !tcp->syn || tcp->ack)
		return XDP_PASS;
	__u32 zero = 0, source = ip->saddr;
	struct counters *c = bpf_map_lookup_elem(&tally, &zero);
	if (!c)
		return XDP_PASS;
	if (bench_sources)
		source = made_up_source(&c->seed, bench_sources);
	if (allowed(source & bpf_htonl(0xffffff00))) {
		c->passed++;
		return XDP_PASS;
	}
	c->dropped++;
	return XDP_DROP;
}
