// An application for the tests of the server in front of it, of Node's own modules alone:
// `node application.mjs ADDRESS LOG IDLE_MS`. What it answers is said in ../go_and_node.rs;
// application.go does the same with Go.

import { createHash } from 'node:crypto';
import { openSync, writeSync } from 'node:fs';
import { createServer, STATUS_CODES } from 'node:http';

const [address, log, idle] = process.argv.slice(2);
const [host, port] = address.split(':');
const requests = openSync(log, 'a');

function note(word, request) {
    writeSync(requests, `${word} ${request.url} HTTP/1.1\n`);
}

const name = (request) => request.url.split('?')[0].split('/').pop();

function serve(request, response) {
    note(request.method, request);
    // Newer versions of Node keep a connection a second longer than they are told.
    response.on('finish', () => request.socket.setTimeout(Number(idle)));
    switch (name(request)) {
        case 'connection':
            return response.end(String(request.socket.remotePort));
        case 'upload':
            return upload(request, response);
        case 'refuse':
            return response.writeHead(413).end('too large\n');
        case 'chunks':
            return chunks(response, 0);
        case 'events':
        case 'stream':
            return events(request, response, name(request) === 'stream');
        default:
            return response.end(name(request));
    }
}

function upload(request, response) {
    let [length, sum] = [0, 0];
    request.on('data', (piece) => {
        length += piece.length;
        for (const byte of piece) sum += byte;
    });
    request.on('end', () => response.end(`${length} ${sum} true`));
}

function chunks(response, number) {
    if (number === 100) return response.end();
    const goesOn = () => chunks(response, number + 1);
    if (response.write(String(number % 10).repeat(10_000))) setImmediate(goesOn);
    else response.once('drain', goesOn);
}

function events(request, response, stays) {
    const last = Number(request.headers['last-event-id'] ?? 0);
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    response.write('retry: 10\n\n');
    for (let id = last + 1; id <= last + 3; id++) {
        response.write(`id: ${id}\ndata: ${id} after ${last}\n\n`);
    }
    if (stays) response.on('close', () => note('LEFT', request));
    else response.end();
}

// A request to upgrade is no request of the server any more, whatever its target is.
function upgrade(request, socket, head) {
    socket.on('error', () => socket.destroy());
    note(request.method, request);
    if (name(request) !== 'ws') {
        const body = name(request);
        const fields = `Connection: close\r\nContent-Length: ${body.length}\r\n\r\n`;
        return socket.end(`HTTP/1.1 200 ${STATUS_CODES[200]}\r\n${fields}${body}`);
    }
    const guid = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'; // RFC 6455 §1.3
    const key = request.headers['sec-websocket-key'];
    const accept = createHash('sha1').update(key + guid).digest('base64');
    socket.write(
        'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
            `Sec-WebSocket-Accept: ${accept}\r\n\r\n`,
    );
    let rest = Buffer.of();
    const take = (piece) => {
        rest = Buffer.concat([rest, piece]);
        for (let end; (end = frameLength(rest)) <= rest.length; rest = rest.subarray(end)) {
            echo(socket, rest.subarray(0, end));
        }
    };
    socket.on('data', take);
    take(head);
}

const extendedLength = (frame) => ((frame[1] & 127) === 126 ? 2 : 0);

// The length of the frame at the beginning of `bytes` (RFC 6455 §5.2), as far as it is known.
function frameLength(bytes) {
    if (bytes.length < 4) return Infinity;
    const payload = extendedLength(bytes) ? bytes.readUInt16BE(2) : bytes[1] & 127;
    return 2 + extendedLength(bytes) + 4 + payload;
}

function echo(socket, frame) {
    const masked = frame.subarray(2 + extendedLength(frame));
    const payload = masked.subarray(4).map((byte, index) => byte ^ masked[index % 4]);
    const extended = frame.subarray(2, 2 + extendedLength(frame));
    socket.write(Buffer.concat([Buffer.of(frame[0], frame[1] & 127), extended, payload]));
    if ((frame[0] & 15) === 8) socket.end();
}

const server = createServer({ keepAliveTimeout: Number(idle) }, serve);
server.on('upgrade', upgrade);
server.on('checkContinue', (request, response) => {
    if (name(request) !== 'refuse') response.writeContinue();
    serve(request, response);
});
server.listen(Number(port), host);
