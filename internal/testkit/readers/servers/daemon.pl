# Perl's HTTP::Daemon, URI and CGI::Cookie. Answers with what it reads. Usage: daemon.pl PORT
use strict;
use warnings;
use CGI::Cookie;
use HTTP::Daemon;
use HTTP::Response;
use JSON::PP;
use URI::Escape;
use URI::QueryParam;

my $daemon = HTTP::Daemon->new(LocalAddr => '127.0.0.1', LocalPort => $ARGV[0], ReuseAddr => 1, Listen => 64)
	or die "cannot listen: $!";
while (my $client = $daemon->accept) {
	if (my $r = $client->get_request) {
		my %cookies = CGI::Cookie->parse($r->header('Cookie') // '');
		my $cookie = $cookies{session} ? join('&', $cookies{session}->value) : '';
		my %read = (
			path     => uri_unescape($r->uri->path),
			query    => scalar($r->uri->query_param('key')) // '',
			cookie   => $cookie,
			header   => scalar($r->header('X-Api-Key')) // '',
			method   => $r->method,
			override => scalar($r->header('X-HTTP-Method-Override')) // '',
			host     => scalar($r->header('Host')) // '',
		);
		$client->send_response(HTTP::Response->new(200, 'OK', ['Connection' => 'close'], JSON::PP->new->latin1->encode(\%read)));
	}
	$client->close;
}
