// Package flood compares what people get while a service is flooded: with nothing in front of it, with nginx, with
// HAProxy and with weir.
//
// Run plays the same round with each front, one after the other. A round has a service of fixed capacity, people who
// ask for a page of it, people whose browsers run no scripts, and a flood that asks for ten times as much as there is.
//
//	people, without scripts, flood -> front -> service
//	           tally                            use
//
// Clients come when the plan says, whether others were answered or not (open loop), and the plan is the same for every
// front. All traffic goes over loopback. Clients are told apart by X-Forwarded-For, as behind a proxy that all fronts
// trust. Those that came in a window after a warm-up are counted. Clients go on coming until the last of these was
// served or has lost patience, so that none profits from the end.
//
// The other scenes are about clients that a throttle may shut out by mistake: programs after a flood (AfterFlood), the
// client of an API beside invented keys (Keys), people beside an attacker who pays (Payer), or beside
// many who pay for every request (Turns), also where they share an address (Shared), programs beside slow uploads
// (Uploads). They have one group of clients and one attack, and are played and counted in the same way.
//
// Report has the figures; Table and Page show them.
package flood
