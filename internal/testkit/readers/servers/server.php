<?php
// PHP's own server. Answers with what it reads. Usage: php -S 127.0.0.1:PORT server.php
header('Content-Type: application/json');
echo json_encode([
	'path' => rawurldecode(explode('?', $_SERVER['REQUEST_URI'])[0]),
	'script' => $_SERVER['SCRIPT_NAME'],
	'query' => is_string($_GET['key'] ?? '') ? $_GET['key'] ?? '' : 'an array',
	'cookie' => is_string($_COOKIE['session'] ?? '') ? $_COOKIE['session'] ?? '' : 'an array',
	'header' => $_SERVER['HTTP_X_API_KEY'] ?? '',
	'method' => $_SERVER['REQUEST_METHOD'],
	'override' => $_SERVER['HTTP_X_HTTP_METHOD_OVERRIDE'] ?? '',
	'host' => $_SERVER['HTTP_HOST'] ?? '',
], JSON_INVALID_UTF8_SUBSTITUTE);
