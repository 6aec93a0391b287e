"""owner ferrule, repository ringbuf: frames over a serial line, in C."""
from engine import DEBUG, DOCUMENT, EXPLORE, IMPLEMENT, REFACTOR, VERIFY, Run

PROJECT = "ferrule__ringbuf"


def ferrule_ringbuf_2():
    """Two bugs in C, then a counter. chat, middle length."""
    r = Run("ferrule__ringbuf-2", "plain", "chat", PROJECT,
            "The gateway drops all our frames since the refactoring, and our own buffer seems to hold one byte less than it should. "
            "Please find out why and fix it. The wire format in PROTOCOL.md is fixed, and the signatures in include/ must stay as they are. C99 only, no new warnings.",
            plant=[("src/crc16.c", "uint16_t crc = 0xFFFF;", "uint16_t crc = 0;"), ("src/ringbuf.c", "return rb->mask + 1 - ringbuf_used(rb);", "return rb->mask - ringbuf_used(rb);"),
                   ("src/frame.c", "if (ringbuf_used(rb) < length + 4)", "if (ringbuf_used(rb) < length + 3)"),
                   ("src/frame.c", "    size_t i, length;\n", "    size_t i, length, left;\n")])
    p = r.sh(EXPLORE, "I read the protocol first, since it is the fixed point.", "cat PROTOCOL.md; git ls-files")
    value, fw, reg = p.get(r'"123456789": (0x29B1)'), p.get(r"firmware\s+(\d\.\d\.\d)"), p.get(r"register (0x\w+)")
    start, poly = p.get(r"start value (0x\w+)"), p.get(r"polynomial (0x\w+)")
    t = r.sh(VERIFY, "Build and test.", "make test 2>&1", fails=True)
    warn = t.get(r"src/frame\.c:(\d+):\d+: warning: unused variable")
    r.read(DEBUG, "make stops at the first binary that fails, so there may be more behind it. The buffer first.", "src/ringbuf.c")
    r.read(EXPLORE, "Head and tail count up for ever and are masked on access, so a full buffer can be told from an empty one and no slot need stay free. The header:", "include/ringbuf.h")
    r.edit(IMPLEMENT, "`ringbuf_free` gives away one byte: the size is mask + 1.", "src/ringbuf.c", "return rb->mask - ringbuf_used(rb);", "return rb->mask + 1 - ringbuf_used(rb);")
    r.sh(VERIFY, "Again.", "make test 2>&1", fails=True)
    r.read(DEBUG, "The buffer is right now; the frames are not. The very first check of the frame test is the CRC.", "src/crc16.c")
    r.sh(DEBUG, "The protocol demands start value %s, here it starts at 0. I compute the check value both ways, outside of the program." % start,
         "python3 - <<'EOF'\ndef crc(data, value):\n    for b in data:\n        value ^= b << 8\n        for _ in range(8):\n            value = ((value << 1) ^ %s) & 0xFFFF if value & 0x8000 else (value << 1) & 0xFFFF\n    return value\nfor start in (0, %s):\n    print('start 0x%%04X -> 0x%%04X' %% (start, crc(b'123456789', start)))\nEOF" % (poly, start))
    r.edit(IMPLEMENT, "With %s it gives the check value %s." % (start, value), "src/crc16.c", "uint16_t crc = 0;", "uint16_t crc = 0xFFFF;")
    r.sh(VERIFY, "All tests.", "make test 2>&1")
    r.sh(DEBUG, "Green, but there is still a warning about src/frame.c:%s, and you asked for no new ones. Let me read that file." % warn, "cat -n src/frame.c")
    r.sh(DEBUG, "`left` is unused. More important: the guard asks for length + 3 bytes, but a frame has start, length, payload and two bytes of CRC, so length + 4. "
         "With one byte missing `high` would be read uninitialised. I try a frame that arrives byte by byte.",
         "mkdir -p build && cat > build/drip.c <<'EOF'\n#include <stdio.h>\n#include \"frame.h\"\nint main(void)\n{\n    uint8_t storage[128], wire[68], payload[64];\n    size_t n = 0, i, total;\n    ringbuf rb;\n    ringbuf_init(&rb, storage, 128);\n    total = frame_encode((const uint8_t *)\"hello\", 5, wire);\n"
         "    for (i = 0; i < total; i++) {\n        ringbuf_write(&rb, wire + i, 1);\n        printf(\"%d \", frame_decode(&rb, payload, &n));\n    }\n    printf(\"used %d\\n\", (int)ringbuf_used(&rb));\n    return 0;\n}\nEOF\ncc -std=c99 -Iinclude -o build/drip build/drip.c src/*.c && ./build/drip")
    r.edit(IMPLEMENT, "There it is: -1 (FRAME_BAD_CRC) when the last byte is still missing, and the frame is lost. The tests always write whole frames, so they could not see it.", "src/frame.c",
           "if (ringbuf_used(rb) < length + 3)", "if (ringbuf_used(rb) < length + 4)")
    r.edit(REFACTOR, "And the unused variable goes.", "src/frame.c", "    size_t i, length, left;\n", "    size_t i, length;\n")
    r.sh(VERIFY, "The drip, then everything with a clean build.", "cc -std=c99 -Iinclude -o build/drip build/drip.c src/*.c && ./build/drip; make clean test 2>&1")
    r.edit(IMPLEMENT, "The drip deserves a test.", "tests/test_frame.c", "static void test_longest(void)\n", """static void test_byte_by_byte(void)
{
    uint8_t storage[128], wire[FRAME_MAX + 4], payload[FRAME_MAX];
    size_t i, n = 0, total = frame_encode((const uint8_t *)"hello", 5, wire);
    ringbuf rb;
    ringbuf_init(&rb, storage, sizeof storage);
    for (i = 0; i < total; i++) {
        CHECK_EQ(frame_decode(&rb, payload, &n), FRAME_NONE);
        ringbuf_write(&rb, wire + i, 1);
    }
    CHECK_EQ(frame_decode(&rb, payload, &n), FRAME_OK);
}

static void test_longest(void)
""")
    r.sh(VERIFY, "It must be called too.", "sed -i 's/^    test_longest();/    test_byte_by_byte();\\n    test_longest();/' tests/test_frame.c && make test 2>&1 && git diff --stat")
    r.say("Three causes: the CRC started at 0 and not at 0xFFFF, so the gateway (firmware %s) dropped every frame; `ringbuf_free` gave away one byte; and `frame_decode` took a frame one byte too early, "
          "which lost frames that arrive in pieces. All fixed, signatures unchanged, no warnings; there is a new test for the third." % fw, VERIFY)
    r.user("Wow, the third one explains the sporadic losses we had for a year. Could you write down in PROTOCOL.md how a receiver should treat incomplete frames? And tell me: is the longest frame a problem for our 64 byte DMA buffer?")
    r.sh(EXPLORE, "For the second question I look at the limits in the code.", "grep -n 'FRAME_MAX\\|wire\\[' include/frame.h src/frame.c tests/test_frame.c")
    r.sh(DOCUMENT, "The paragraph for the protocol, in the place where resynchronising is described.", """python3 - <<'EOF'
p = 'PROTOCOL.md'
s = open(p).read()
new = '''
## Incomplete frames

A receiver waits until all n + 4 bytes are there before it looks at the CRC. If
the CRC is wrong it drops the start byte only and searches for the next one.
'''
open(p, 'w').write(s.rstrip('\\n') + '\\n' + new)
EOF
tail -n 12 PROTOCOL.md""")
    r.sh(VERIFY, "How long is the longest frame on the wire, by the program itself?",
         "cat > build/longest.c <<'EOF'\n#include <stdio.h>\n#include \"frame.h\"\nint main(void)\n{\n    uint8_t in[FRAME_MAX] = {0}, wire[FRAME_MAX + 4];\n    printf(\"%d\\n\", (int)frame_encode(in, FRAME_MAX, wire));\n    return 0;\n}\nEOF\ncc -std=c99 -Iinclude -o build/longest build/longest.c src/*.c && ./build/longest; git status --short")
    r.say("PROTOCOL.md has a section \"Incomplete frames\" now. And yes: the longest payload is 64 bytes, so the longest frame has 68 on the wire and does not fit into a 64 byte DMA buffer at once. "
          "With the new guard it may arrive in two pieces. The errors that the gateway counts are in register %s, in case you want to compare before and after; the check value for a test by hand is %s." % (reg, value), DOCUMENT)
    r.finish("Submitted", "make test")
    return r


SCRIPTS = [ferrule_ringbuf_2]
