// SPDX-License-Identifier: Apache-2.0
// Reading a packet, as far as the limiter needs it.
#pragma once

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>

#include "config.h"

#ifndef ETH_P_8021AD
#define ETH_P_8021AD 0x88A8
#endif

#define MAX_TAGS 2     // VLAN, or VLAN in VLAN
#define MAX_HEADERS 8  // extension headers of IPv6; more than any honest packet has
#define TCP_FLAGS 13   // where they stand
#define TCP_SYN 0x02
#define TCP_ACK 0x10

struct packet {
	u64 src[2], dst[2]; // as on the wire; of IPv4 the first word has the address in its first half
	u32 v6;
	u32 port; // of the destination
	u32 flags;
};

// What is known of a packet.
enum {
	HAS_PORT = 1,
	IS_SYN = 2,
	PORT_HIDDEN = 4, // it may be for any port
};

// What became of reading.
enum parsed {
	PARSED,
	NOT_IP,
	BROKEN, // shorter than it says; the stack drops it
};

struct vlan {
	__be16 tag;
	__be16 proto;
};

// The first bytes of every extension header.
struct extension {
	u8 next;
	u8 length;
	__be16 fragment; // of a fragment header: offset and flags
	__be32 id;
};

static __always_inline bool has_ports(u32 proto)
{
	return proto == IPPROTO_TCP || proto == IPPROTO_UDP || proto == IPPROTO_SCTP || proto == IPPROTO_DCCP ||
	       proto == IPPROTO_UDPLITE;
}

// hidden is for packets whose ports and flags cannot be seen though there may be some: cut off in a first fragment, behind too many
// headers, or in a further buffer of the packet. Nobody honest sends such. They count as what is limited, whatever that is, so that
// nobody gets past the limit by cutting packets up or stuffing them.
static __always_inline enum parsed hidden(struct packet *p)
{
	p->flags |= PORT_HIDDEN | IS_SYN;
	return PARSED;
}

// read_ports reads what stands behind the IP headers. room is how much of it the packet has; cut tells that the rest is in another
// fragment.
static __always_inline enum parsed read_ports(struct packet *p, void *at, void *end, u32 proto, u32 room, bool cut)
{
	if (!has_ports(proto))
		return PARSED;
	u32 need = proto == IPPROTO_TCP ? TCP_FLAGS + 1 : 4;
	if (room < need)
		return cut ? hidden(p) : BROKEN;
	u8 *b = at;
	if ((void *)(b + 4) > end)
		return hidden(p);
	p->port = (u32)b[2] << 8 | b[3];
	p->flags |= HAS_PORT;
	if (proto != IPPROTO_TCP)
		return PARSED;
	if ((void *)(b + TCP_FLAGS + 1) > end)
		return hidden(p);
	if ((b[TCP_FLAGS] & (TCP_SYN | TCP_ACK)) == TCP_SYN)
		p->flags |= IS_SYN;
	return PARSED;
}

// whole_length is how long a packet is, in all its buffers. Asking costs a call, so it is asked only where it matters.
static __always_inline u32 whole_length(struct xdp_md *ctx)
{
	return config.frags ? bpf_xdp_get_buff_len(ctx) : ctx->data_end - ctx->data;
}

static __always_inline enum parsed read_v4(struct xdp_md *ctx, struct packet *p, void *at, void *end, u32 start)
{
	struct iphdr *ip = at;
	if ((void *)(ip + 1) > end)
		return BROKEN;
	u32 header = ip->ihl * 4;
	u32 total = bpf_ntohs(ip->tot_len);
	if (total == 0)
		total = whole_length(ctx) - start; // larger than the field can say: put together by the card or the kernel
	if (ip->version != 4 || header < sizeof(*ip) || total < header)
		return BROKEN;
	if (at + total > end && total > whole_length(ctx) - start)
		return BROKEN;
	p->src[0] = ip->saddr;
	p->dst[0] = ip->daddr;
	u16 fragment = bpf_ntohs(ip->frag_off);
	if (fragment & 0x1fff) {
		p->flags |= PORT_HIDDEN;
		return PARSED;
	}
	return read_ports(p, at + header, end, ip->protocol, total - header, fragment & 0x2000);
}

// read_v6 is not static, so that the verifier follows its many ways once.
__noinline int read_v6(struct xdp_md *ctx, struct packet *p, u32 start)
{
	u32 length = whole_length(ctx) - start;
	void *at = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	if (!p || start > sizeof(struct ethhdr) + MAX_TAGS * sizeof(struct vlan))
		return BROKEN;
	at += start;
	struct ipv6hdr *ip = at;
	if ((void *)(ip + 1) > end)
		return BROKEN;
	u32 total = sizeof(*ip) + bpf_ntohs(ip->payload_len);
	if (ip->payload_len == 0)
		total = length; // a jumbogram
	if (ip->version != 6 || total > length)
		return BROKEN;
	p->v6 = 1;
	__builtin_memcpy(p->src, &ip->saddr, 16);
	__builtin_memcpy(p->dst, &ip->daddr, 16);

	u32 proto = ip->nexthdr;
	u32 offset = sizeof(*ip); // behind the headers read so far
	bool cut = false;
	KEEP_LOOP
	for (int i = 0; i < MAX_HEADERS; i++) {
		u32 size;
		switch (proto) {
		case IPPROTO_HOPOPTS:
		case IPPROTO_ROUTING:
		case IPPROTO_DSTOPTS:
		case IPPROTO_MH:
		case 139: // host identity
		case 140: // shim6
		case IPPROTO_AH:
		case IPPROTO_FRAGMENT:
			break;
		default:
			if (offset > total)
				return cut ? hidden(p) : BROKEN;
			return read_ports(p, at + offset, end, proto, total - offset, cut);
		}
		struct extension *e = at + offset;
		if (offset + sizeof(*e) > total)
			return cut ? hidden(p) : BROKEN;
		if ((void *)(e + 1) > end)
			return hidden(p);
		if (proto == IPPROTO_FRAGMENT) {
			if (e->fragment & bpf_htons(0xfff8)) {
				p->flags |= PORT_HIDDEN;
				return PARSED;
			}
			cut = e->fragment & bpf_htons(1);
			size = 8;
		} else if (proto == IPPROTO_AH) {
			size = (e->length + 2) * 4;
		} else {
			size = (e->length + 1) * 8;
		}
		proto = e->next;
		offset += size;
	}
	return hidden(p);
}

static __always_inline enum parsed read_packet(struct xdp_md *ctx, struct packet *p)
{
	void *at = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = at;
	if ((void *)(eth + 1) > end)
		return BROKEN;
	u16 proto = eth->h_proto;
	u32 start = sizeof(*eth);
	at = eth + 1;
#pragma unroll
	for (int i = 0; i < MAX_TAGS; i++) {
		if (proto != bpf_htons(ETH_P_8021Q) && proto != bpf_htons(ETH_P_8021AD))
			break;
		struct vlan *tag = at;
		if ((void *)(tag + 1) > end)
			return BROKEN;
		proto = tag->proto;
		at = tag + 1;
		start += sizeof(*tag);
	}
	if (proto == bpf_htons(ETH_P_IP))
		return read_v4(ctx, p, at, end, start);
	if (proto == bpf_htons(ETH_P_IPV6))
		return read_v6(ctx, p, start);
	return NOT_IP;
}
