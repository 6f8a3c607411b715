/* What is done to bytes once for every entry (see __init__.py).
 *
 * Rules: a function here only ever says yes. It is made with the Python function of the same name, which it calls with
 * the arguments as they came for whatever it does not take as it stands: another type, a number too large, bytes that
 * are wrong in any way. So there is no error here but a lack of memory, and no limit that is not the format's own.
 * Exact types only, whose values cannot change while they are read; every length is compared with what is left before
 * it is used; no thread, no state but the tables of the checksums.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#ifndef LEAF_SOURCE
#error "say which source this is: -DLEAF_SOURCE=<CRC-32 of this file>"
#endif

typedef uint8_t byte;

/* ── numbers ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

static byte *put(byte *at, uint64_t value, int size) /* big-endian */
{
    for (int i = size; i-- > 0; value >>= 8)
        at[i] = (byte)value;
    return at + size;
}

static byte *put_little(byte *at, uint64_t value, int size)
{
    for (int i = 0; i < size; i++, value >>= 8)
        at[i] = (byte)value;
    return at + size;
}

static uint64_t get(const byte *at, int size)
{
    uint64_t value = 0;
    for (int i = 0; i < size; i++)
        value = value << 8 | at[i];
    return value;
}

static uint64_t get_little(const byte *at, int size)
{
    uint64_t value = 0;
    for (int i = size; i-- > 0;)
        value = value << 8 | at[i];
    return value;
}

static uint64_t zigzag(int64_t value)
{
    return (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0);
}

static int varint_size(uint64_t number)
{
    int size = 1;
    for (; number > 127; number >>= 7)
        size++;
    return size;
}

static byte *put_varint(byte *at, uint64_t number)
{
    for (; number > 127; number >>= 7)
        *at++ = (byte)(number | 128);
    *at++ = (byte)number;
    return at;
}

/* A zigzag varint of at most nine bytes, and where it ends; NULL: none that is taken here. */
static const byte *get_varint(const byte *at, const byte *end, int64_t *value)
{
    uint64_t number = 0;
    for (int shift = 0; at < end && shift < 63; shift += 7) {
        byte next = *at++;
        number |= (uint64_t)(next & 127) << shift;
        if (next < 128) {
            *value = (int64_t)(number >> 1) ^ -(int64_t)(number & 1);
            return at;
        }
    }
    return NULL;
}

/* ── checksums ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

static uint32_t ieee[8][256], castagnoli[8][256]; /* Eight bytes at a time (Kounavis and Berry, 2005). */

static void fill(uint32_t table[8][256], uint32_t polynomial)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
        table[0][i] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (int i = 0; i < 256; i++)
            table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
}

static uint32_t word(const byte *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24; /* Compilers make one load of it. */
}

static uint32_t checksum(uint32_t table[8][256], uint32_t start, const byte *at, size_t size)
{
    uint32_t crc = ~start;
    for (; size >= 8; at += 8, size -= 8) {
        uint32_t low = crc ^ word(at), high = word(at + 4);
        crc = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^ table[4][low >> 24]
            ^ table[3][high & 255] ^ table[2][high >> 8 & 255] ^ table[1][high >> 16 & 255] ^ table[0][high >> 24];
    }
    for (; size; at++, size--)
        crc = table[0][(crc ^ *at) & 255] ^ crc >> 8;
    return ~crc;
}

#define crc32(start, at, size) checksum(ieee, start, at, size)

#if defined(__x86_64__)
#include <cpuid.h>

static int has_crc32c; /* Does the processor do it (SSE 4.2)? */

__attribute__((target("sse4.2"))) static uint32_t crc32c_by_processor(const byte *at, size_t size)
{
    uint64_t crc = UINT32_MAX, eight;
    for (; size >= 8; at += 8, size -= 8) {
        memcpy(&eight, at, 8);
        crc = __builtin_ia32_crc32di(crc, eight);
    }
    for (; size; at++, size--)
        crc = __builtin_ia32_crc32qi((uint32_t)crc, *at);
    return ~(uint32_t)crc;
}

static void look_at_processor(void)
{
    unsigned a, b, c, d;
    has_crc32c = __get_cpuid(1, &a, &b, &c, &d) && (c >> 20 & 1);
}
#else
enum { has_crc32c = 0 };
#define crc32c_by_processor(at, size) 0
#define look_at_processor()
#endif

static uint32_t crc32c(const byte *at, size_t size)
{
    return has_crc32c ? crc32c_by_processor(at, size) : checksum(castagnoli, 0, at, size);
}

/* ── what Python hands over ────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    const byte *at;
    size_t size;
} part;

/* Each answers 1 if the object is what it looks for, else 0, with no error set. */

static int number(PyObject *object, uint64_t most, uint64_t *value)
{
    if (!PyLong_CheckExact(object))
        return 0;
    *value = PyLong_AsUnsignedLongLong(object);
    if (*value == UINT64_MAX && PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    return *value <= most;
}

static int data(PyObject *object, uint64_t most, part *found)
{
    if (!PyBytes_CheckExact(object))
        return 0;
    found->at = (const byte *)PyBytes_AS_STRING(object);
    found->size = (size_t)PyBytes_GET_SIZE(object);
    return found->size <= most;
}

static int text(PyObject *object, uint64_t most, part *found) /* in UTF-8 */
{
    Py_ssize_t size = 0;
    if (!PyUnicode_CheckExact(object))
        return 0;
    found->at = (const byte *)PyUnicode_AsUTF8AndSize(object, &size);
    found->size = (size_t)size;
    if (found->at == NULL)
        PyErr_Clear();
    return found->at != NULL && found->size <= most;
}

static int sequence(PyObject *object)
{
    return PyList_CheckExact(object) || PyTuple_CheckExact(object);
}

static byte *bytes_of(PyObject *object)
{
    return (byte *)PyBytes_AS_STRING(object);
}

/* A tuple of references that are given away; none of them may be NULL, or there is no tuple and the error stands. */
static PyObject *tuple(Py_ssize_t count, PyObject **parts)
{
    PyObject *made = NULL;
    Py_ssize_t i = 0;
    while (i < count && parts[i] != NULL)
        i++;
    if (i == count)
        made = PyTuple_New(count);
    for (i = 0; i < count; i++)
        if (made != NULL)
            PyTuple_SET_ITEM(made, i, parts[i]);
        else
            Py_XDECREF(parts[i]);
    return made;
}

#define GIVEN PyObject *pure, PyObject *const *given, Py_ssize_t count, PyObject *names
#define AS_PURE PyObject_Vectorcall(pure, given, (size_t)count, names)

/* ── journal (consensus/journal/frames.py) ─────────────────────────────────────────────────────────────────────────── */

enum { FRAME_HEADER = 40, FRAME_CRC_AT = 36, FRAME_MAGIC = 0xf5, FRAME_CLOSING = 0xa5 };

/* (seed, kind, seq, lag, index, term, payload) */
static PyObject *encode_frame(GIVEN)
{
    uint64_t seed, kind, seq, lag, index, term;
    part payload;
    if (names != NULL || count != 7 || !number(given[0], UINT32_MAX, &seed) || !number(given[1], UINT8_MAX, &kind)
        || !number(given[2], UINT64_MAX, &seq) || !number(given[3], UINT16_MAX, &lag)
        || !number(given[4], UINT64_MAX, &index) || !number(given[5], UINT64_MAX, &term)
        || !data(given[6], UINT32_MAX, &payload))
        return AS_PURE;
    PyObject *header = PyBytes_FromStringAndSize(NULL, FRAME_HEADER);
    if (header == NULL)
        return NULL;
    byte *at = bytes_of(header);
    at = put(at, FRAME_MAGIC, 1);
    at = put(at, kind, 1);
    at = put_little(at, lag, 2);
    at = put_little(at, payload.size, 4);
    at = put_little(at, seq, 8);
    at = put_little(at, index, 8);
    at = put_little(at, term, 8);
    at = put_little(at, crc32(0, payload.at, payload.size), 4);
    put_little(at, crc32((uint32_t)seed, bytes_of(header), FRAME_CRC_AT), 4);
    byte end[8] = {0};
    size_t zeros = -(FRAME_HEADER + 1 + payload.size) & 7;
    end[zeros] = FRAME_CLOSING;
    PyObject *closing = PyBytes_FromStringAndSize((char *)end, (Py_ssize_t)zeros + 1);
    return tuple(3, (PyObject *[]){header, Py_NewRef(given[6]), closing});
}

/* ── what voters exchange (consensus/transport/codec.py) ───────────────────────────────────────────────────────────── */

enum { ENTRY_AHEAD = 16 };

static uint32_t entry_crc(uint64_t term, const byte *at, size_t size)
{
    byte said[8];
    put(said, term, 8);
    return crc32(crc32(0, said, 8), at, size);
}

/* (entries) */
static PyObject *encode_entries(GIVEN)
{
    if (names != NULL || count != 1 || !sequence(given[0]))
        return AS_PURE;
    Py_ssize_t entries = PySequence_Fast_GET_SIZE(given[0]);
    PyObject **items = PySequence_Fast_ITEMS(given[0]);
    uint64_t term, total = 0;
    part entry;
    for (Py_ssize_t i = 0; i < entries; i++) {
        if (!PyTuple_CheckExact(items[i]) || PyTuple_GET_SIZE(items[i]) != 3
            || !number(PyTuple_GET_ITEM(items[i], 1), UINT64_MAX, &term)
            || !data(PyTuple_GET_ITEM(items[i], 2), UINT32_MAX, &entry))
            return AS_PURE;
        total += ENTRY_AHEAD + entry.size;
    }
    PyObject *made = total > PY_SSIZE_T_MAX ? PyErr_NoMemory() : PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total);
    if (made == NULL)
        return NULL;
    byte *at = bytes_of(made);
    for (Py_ssize_t i = 0; i < entries; i++) {
        number(PyTuple_GET_ITEM(items[i], 1), UINT64_MAX, &term);
        data(PyTuple_GET_ITEM(items[i], 2), UINT32_MAX, &entry);
        at = put(at, term, 8);
        at = put(at, entry.size, 4);
        at = put(at, entry_crc(term, entry.at, entry.size), 4);
        memcpy(at, entry.at, entry.size);
        at += entry.size;
    }
    return made;
}

/* (frame, at, entries, index, bytes_max, term_max): the entries to the frame's end; the first comes after index. */
static PyObject *split_entries(GIVEN)
{
    part frame;
    uint64_t start, entries, index, bytes_max, term_max;
    if (names != NULL || count != 6 || !data(given[0], PY_SSIZE_T_MAX, &frame) || !number(given[1], frame.size, &start)
        || !number(given[2], (frame.size - start) / ENTRY_AHEAD, &entries) || !number(given[3], INT64_MAX, &index)
        || !number(given[4], UINT64_MAX, &bytes_max) || !number(given[5], UINT64_MAX, &term_max))
        return AS_PURE;
    PyObject *found = PyTuple_New((Py_ssize_t)entries);
    if (found == NULL)
        return NULL;
    const byte *at = frame.at + start, *end = frame.at + frame.size;
    for (uint64_t i = 0; i < entries; i++) {
        if (end - at < ENTRY_AHEAD)
            goto refuse;
        uint64_t term = get(at, 8), size = get(at + 8, 4), crc = get(at + 12, 4);
        at += ENTRY_AHEAD;
        if (size > (uint64_t)(end - at) || size > bytes_max || size == 1 || term > term_max
            || entry_crc(term, at, size) != crc)
            goto refuse;
        PyObject *item = tuple(3, (PyObject *[]){PyLong_FromUnsignedLongLong(index + 1 + i),
                                                 PyLong_FromUnsignedLongLong(term),
                                                 PyBytes_FromStringAndSize((const char *)at, (Py_ssize_t)size)});
        if (item == NULL) {
            Py_DECREF(found);
            return NULL;
        }
        PyTuple_SET_ITEM(found, (Py_ssize_t)i, item);
        at += size;
    }
    if (at == end) /* All of it was entries. */
        return found;
refuse:
    Py_DECREF(found);
    return AS_PURE;
}

/* ── entries (consensus/entry.py) ──────────────────────────────────────────────────────────────────────────────────── */

enum { ENTRY_HEAD = 42, ENTRY_WITH_DIGEST = 2, ENTRY_FORMATS = 3, ENTRY_DIGEST = 16 };

/* (version, kind, count, term, base, time_ms, principal, cause, request_id, reply, batch, digest) */
static PyObject *entry_bytes(GIVEN)
{
    uint64_t version, kind, events, term, base, time_ms, total = ENTRY_HEAD;
    part parts[6];
    if (names != NULL || count != 12 || !number(given[0], UINT8_MAX, &version) || !number(given[1], UINT8_MAX, &kind)
        || !number(given[2], UINT32_MAX, &events) || !number(given[3], UINT64_MAX, &term)
        || !number(given[4], UINT64_MAX, &base) || !number(given[5], UINT64_MAX, &time_ms)
        || !text(given[6], UINT16_MAX, &parts[0]) || !text(given[7], UINT16_MAX, &parts[1])
        || !text(given[8], UINT16_MAX, &parts[2]) || !data(given[9], UINT16_MAX, &parts[3])
        || !data(given[10], UINT32_MAX, &parts[4]) || !data(given[11], UINT16_MAX, &parts[5]))
        return AS_PURE;
    for (int i = 0; i < 6; i++)
        total += parts[i].size;
    PyObject *entry = total > PY_SSIZE_T_MAX ? PyErr_NoMemory() : PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total);
    if (entry == NULL)
        return NULL;
    byte *at = bytes_of(entry);
    at = put(at, version, 1);
    at = put(at, kind, 1);
    for (int i = 0; i < 4; i++)
        at = put_little(at, parts[i].size, 2);
    at = put_little(at, events, 4);
    at = put_little(at, parts[4].size, 4);
    at = put_little(at, term, 8);
    at = put_little(at, base, 8);
    at = put_little(at, time_ms, 8);
    for (int i = 0; i < 6; at += parts[i++].size)
        memcpy(at, parts[i].at, parts[i].size);
    return entry;
}

static PyObject *as_text(const byte *at, size_t size)
{
    return PyUnicode_DecodeUTF8((const char *)at, (Py_ssize_t)size, NULL);
}

static PyObject *as_bytes(const byte *at, size_t size)
{
    return PyBytes_FromStringAndSize((const char *)at, (Py_ssize_t)size);
}

/* What is wrong with bytes is said by the Python function; a lack of memory is said here. */
static int is_memory(void)
{
    if (PyErr_ExceptionMatches(PyExc_MemoryError))
        return 1;
    PyErr_Clear();
    return 0;
}

/* (data, bytes_max, reply_max, kinds) */
static PyObject *entry_parts(GIVEN)
{
    part entry;
    uint64_t bytes_max, reply_max;
    if (names != NULL || count != 4 || !data(given[0], PY_SSIZE_T_MAX, &entry)
        || !number(given[1], UINT64_MAX, &bytes_max) || !number(given[2], UINT64_MAX, &reply_max)
        || !PyTuple_CheckExact(given[3]) || entry.size < ENTRY_HEAD || entry.size > bytes_max)
        return AS_PURE;
    const byte *head = entry.at, *at = entry.at + ENTRY_HEAD;
    int version = head[0], kind = head[1];
    size_t size[6], total = ENTRY_HEAD;
    for (int i = 0; i < 4; i++)
        size[i] = (size_t)get_little(head + 2 + 2 * i, 2);
    size[4] = (size_t)get_little(head + 14, 4);
    size[5] = version == ENTRY_WITH_DIGEST ? ENTRY_DIGEST : 0;
    for (int i = 0; i < 6; i++)
        total += size[i];
    if (version < 1 || version > ENTRY_FORMATS || kind < 1 || kind > PyTuple_GET_SIZE(given[3]) || total != entry.size
        || size[3] > reply_max || ((size[3] || size[5]) && !size[2]))
        return AS_PURE;
    PyObject *parts[12] = {Py_NewRef(PyTuple_GET_ITEM(given[3], kind - 1)),
                           PyLong_FromUnsignedLongLong(get_little(head + 18, 8)),
                           PyLong_FromUnsignedLongLong(get_little(head + 26, 8)),
                           PyLong_FromUnsignedLongLong(get_little(head + 10, 4)),
                           PyLong_FromUnsignedLongLong(get_little(head + 34, 8))};
    for (int i = 0; i < 6; at += size[i++])
        if ((parts[5 + i] = i < 3 ? as_text(at, size[i]) : as_bytes(at, size[i])) == NULL)
            break;
    parts[11] = Py_NewRef(version == 1 ? Py_False : Py_True);
    PyObject *found = tuple(12, parts);
    return found == NULL && !is_memory() ? AS_PURE : found;
}

/* ── batches of events (wire/avro.py, wire/records.py) ─────────────────────────────────────────────────────────────── */

enum { BATCH_HEADER = 61, BATCH_CRC_AT = 17, BATCH_CHECKED_AT = 21, BATCH_SIZE_FROM = 12, BATCH_MAGIC = 2 };

typedef struct {
    uint64_t offset, term, time_ms;
    part principal, cause, request_id;
} stamp;

static int stamp_of(PyObject *const *given, stamp *found)
{
    return number(given[0], INT64_MAX, &found->offset) && number(given[1], INT32_MAX, &found->term)
        && number(given[2], INT64_MAX, &found->time_ms) && text(given[3], INT32_MAX, &found->principal)
        && text(given[4], INT32_MAX, &found->cause) && text(given[5], INT32_MAX, &found->request_id);
}

#define NAMED(name) (part){(const byte *)name, sizeof(name) - 1}

static size_t field_size(size_t size)
{
    return (size_t)varint_size((uint64_t)size << 1) + size;
}

static byte *put_field(byte *at, part data)
{
    at = put_varint(at, (uint64_t)data.size << 1);
    memcpy(at, data.at, data.size);
    return at + data.size;
}

static part digits(char *into, uint64_t value) /* 20 are enough */
{
    char *at = into + 20;
    do
        *--at = (char)('0' + value % 10);
    while (value /= 10);
    return (part){(const byte *)at, (size_t)(into + 20 - at)};
}

/* The headers of a record, as name and value in turn: all of them have seven. */
typedef struct {
    part parts[14];
    char offset[20], term[20], time_ms[20];
} headers;

static void headers_of(const stamp *said, uint64_t offset, part kind, headers *all)
{
    part texts[14] = {NAMED("offset"), digits(all->offset, offset), NAMED("term"), digits(all->term, said->term),
                      NAMED("time_ms"), digits(all->time_ms, said->time_ms), NAMED("type"), kind,
                      NAMED("principal"), said->principal, NAMED("cause"), said->cause,
                      NAMED("request_id"), said->request_id};
    memcpy(all->parts, texts, sizeof texts);
}

static size_t headers_size(const headers *all)
{
    size_t size = 1;
    for (int i = 0; i < 14; i++)
        size += field_size(all->parts[i].size);
    return size;
}

/* (offset, term, time_ms, principal, cause, request_id, kinds, keys, values) */
static PyObject *stamped_batch(GIVEN)
{
    stamp said;
    if (names != NULL || count != 9 || !stamp_of(given, &said) || !sequence(given[6]) || !sequence(given[7])
        || !sequence(given[8]))
        return AS_PURE;
    Py_ssize_t events = PySequence_Fast_GET_SIZE(given[6]);
    PyObject **kinds = PySequence_Fast_ITEMS(given[6]), **keys = PySequence_Fast_ITEMS(given[7]),
             **values = PySequence_Fast_ITEMS(given[8]);
    if (events < 1 || events > INT32_MAX || PySequence_Fast_GET_SIZE(given[7]) != events
        || PySequence_Fast_GET_SIZE(given[8]) != events || said.offset > (uint64_t)(INT64_MAX - events))
        return AS_PURE;
    PyObject *batch = NULL;
    byte *at = NULL;
    uint64_t total = BATCH_HEADER;
    for (int writing_it = 0; writing_it < 2; writing_it++) { /* First how long it is. */
        for (Py_ssize_t i = 0; i < events; i++) {
            part kind, key, value;
            headers all;
            if (!text(kinds[i], INT32_MAX, &kind) || !data(keys[i], INT32_MAX, &key)
                || !data(values[i], INT32_MAX, &value))
                return AS_PURE;
            headers_of(&said, said.offset + (uint64_t)i, kind, &all);
            size_t size = 2 + (size_t)varint_size((uint64_t)i << 1) + field_size(key.size) + field_size(value.size)
                + headers_size(&all);
            if (at == NULL) {
                total += field_size(size);
                if (total > INT32_MAX)
                    return AS_PURE;
                continue;
            }
            at = put_varint(at, (uint64_t)size << 1);
            at = put(at, 0, 2); /* No attributes; the time of the batch. */
            at = put_varint(at, (uint64_t)i << 1);
            at = put_field(at, key);
            at = put_field(at, value);
            *at++ = 7 << 1;
            for (int header = 0; header < 14; header++)
                at = put_field(at, all.parts[header]);
        }
        if (at == NULL && (batch = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total)) == NULL)
            return NULL;
        at = bytes_of(batch) + BATCH_HEADER;
    }
    byte *head = bytes_of(batch);
    at = put(head, said.offset, 8);
    at = put(at, total - BATCH_SIZE_FROM, 4);
    at = put(at, said.term, 4);
    at = put(at, BATCH_MAGIC, 1);
    at = put(at + 4, 0, 2);
    at = put(at, (uint64_t)events - 1, 4);
    at = put(at, said.time_ms, 8);
    at = put(at, said.time_ms, 8);
    memset(at, 0xff, 14); /* No producer. */
    put(at + 14, (uint64_t)events, 4);
    put(head + BATCH_CRC_AT, crc32c(head + BATCH_CHECKED_AT, (size_t)total - BATCH_CHECKED_AT), 4);
    return batch;
}

/* A field as put_field writes it, nowhere longer; where it ends, or NULL. */
static const byte *get_field(const byte *at, const byte *end, part *found)
{
    int64_t size;
    const byte *data = at == NULL ? NULL : get_varint(at, end, &size);
    if (data == NULL || size < 0 || size > end - data)
        return NULL;
    *found = (part){data, (size_t)size};
    return data + size;
}

static int same(part one, part other)
{
    return one.size == other.size && memcmp(one.at, other.at, one.size) == 0;
}

/* The delta-th record of a batch with that stamp, as (key, value, kind), and where it ends; NULL with no error set: it
 * is not one. */
static PyObject *stamped_record(const byte **from, const byte *last, const stamp *said, int64_t delta)
{
    int64_t size, number;
    part key, value, header;
    headers all;
    const byte *at = get_varint(*from, last, &size), *start;
    if (at == NULL || size < 1 || size > last - at)
        return NULL;
    const byte *end = at + size;
    at = get_varint(at + 1, end, &number);
    if (at == NULL || number != 0 || (at = get_varint(at, end, &number)) == NULL || number != delta)
        return NULL;
    at = get_field(get_field(at, end, &key), end, &value);
    if (at == NULL || at == end || *at++ != 7 << 1)
        return NULL;
    headers_of(said, said->offset + (uint64_t)delta, (part){NULL, 0}, &all);
    for (int i = 0; i < 14; i++) {
        start = at;
        if ((at = get_field(at, end, &header)) == NULL || (size_t)(at - start) != field_size(header.size))
            return NULL;
        if (i == 7)
            all.parts[7] = header;
        else if (!same(header, all.parts[i]))
            return NULL;
    }
    if (at != end)
        return NULL;
    *from = end;
    return tuple(3, (PyObject *[]){as_bytes(key.at, key.size), as_bytes(value.at, value.size),
                                   as_text(all.parts[7].at, all.parts[7].size)});
}

/* (batch, offset, term, time_ms, principal, cause, request_id) */
static PyObject *stamped_records(GIVEN)
{
    part batch;
    stamp said;
    if (names != NULL || count != 7 || !data(given[0], INT32_MAX, &batch) || !stamp_of(given + 1, &said)
        || batch.size < BATCH_HEADER)
        return AS_PURE;
    const byte *head = batch.at, *at = head + BATCH_HEADER, *end = head + batch.size;
    uint64_t events = get(head + 57, 4);
    if (get(head, 8) != said.offset || get(head + 8, 4) != batch.size - BATCH_SIZE_FROM || get(head + 12, 4) != said.term
        || head[16] != BATCH_MAGIC || get(head + 21, 2) != 0 || events < 1 || events > (uint64_t)(end - at)
        || get(head + 23, 4) != events - 1 || get(head + 27, 8) != said.time_ms || get(head + 35, 8) != said.time_ms
        || said.offset > INT64_MAX - events
        || get(head + BATCH_CRC_AT, 4) != crc32c(head + BATCH_CHECKED_AT, batch.size - BATCH_CHECKED_AT))
        return AS_PURE;
    PyObject *found = PyList_New((Py_ssize_t)events);
    if (found == NULL)
        return NULL;
    for (uint64_t i = 0; i < events; i++) {
        PyObject *record = stamped_record(&at, end, &said, (int64_t)i);
        if (record == NULL) {
            Py_DECREF(found);
            return PyErr_Occurred() && is_memory() ? NULL : AS_PURE;
        }
        PyList_SET_ITEM(found, (Py_ssize_t)i, record);
    }
    if (at == end) /* All of it was records. */
        return found;
    Py_DECREF(found);
    return AS_PURE;
}

/* ── Avro records of plain fields (events/_generated.py) ───────────────────────────────────────────────────────────── */

#define KINDS "syilbL" /* string, bytes, int, long, boolean, array of long */
enum { FIELDS_MAX = 16 };

typedef struct {
    PyObject *pure, *whose, *names;
    const char *kinds;
    Py_ssize_t fields;
} layout;

static layout layout_of(PyObject *held)
{
    PyObject *kinds = PyTuple_GET_ITEM(held, 3);
    return (layout){PyTuple_GET_ITEM(held, 0), PyTuple_GET_ITEM(held, 1), PyTuple_GET_ITEM(held, 2),
                    PyUnicode_AsUTF8(kinds), PyUnicode_GET_LENGTH(kinds)};
}

static int integer(PyObject *object, char kind, uint64_t *z)
{
    int64_t most = kind == 'i' ? INT32_MAX : INT64_MAX;
    if (!PyLong_CheckExact(object))
        return 0;
    int over;
    int64_t value = PyLong_AsLongLongAndOverflow(object, &over);
    *z = zigzag(value);
    return !over && value <= most && value >= -most - 1;
}

/* The bytes of a value: how many (at is NULL), or where they end; 0: it is not taken here. */
static uintptr_t field(byte *at, PyObject *value, char kind)
{
    uint64_t z;
    part said;
    switch (kind) {
    case 's':
    case 'y':
        if (!(kind == 's' ? text : data)(value, INT32_MAX, &said))
            return 0;
        return at == NULL ? field_size(said.size) : (uintptr_t)put_field(at, said);
    case 'i':
    case 'l':
        if (!integer(value, kind, &z))
            return 0;
        return at == NULL ? (uintptr_t)varint_size(z) : (uintptr_t)put_varint(at, z);
    case 'b':
        if (!PyBool_Check(value))
            return 0;
        return at == NULL ? 1 : (uintptr_t)put(at, value == Py_True, 1);
    default:
        break;
    }
    if (!PyTuple_CheckExact(value))
        return 0;
    uint64_t items = (uint64_t)PyTuple_GET_SIZE(value);
    uintptr_t size = (uintptr_t)varint_size(items << 1) + (items > 0);
    if (at != NULL)
        at = put_varint(at, items << 1);
    for (uint64_t i = 0; i < items; i++) {
        if (!integer(PyTuple_GET_ITEM(value, (Py_ssize_t)i), 'l', &z))
            return 0;
        size += (uintptr_t)varint_size(z);
        if (at != NULL)
            at = put_varint(at, z);
    }
    if (at != NULL && items > 0)
        *at++ = 0; /* The empty block. */
    return at == NULL ? size : (uintptr_t)at;
}

/* (value) */
static PyObject *written(PyObject *held, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    layout of = layout_of(held);
    PyObject *pure = of.pure, *values[FIELDS_MAX], *made = NULL;
    Py_ssize_t fields = 0;
    uint64_t total = 0;
    uintptr_t size;
    part prefix;
    int taken = names == NULL && count == 1 && data(of.whose, INT32_MAX, &prefix);
    for (; taken && fields < of.fields; fields++) {
        values[fields] = PyObject_GetAttr(given[0], PyTuple_GET_ITEM(of.names, fields));
        if (values[fields] == NULL) {
            PyErr_Clear();
            taken = 0;
            break;
        }
        taken = (size = field(NULL, values[fields], of.kinds[fields])) != 0;
        total += size;
    }
    taken = taken && total <= INT32_MAX;
    if (taken && (made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(prefix.size + total))) != NULL) {
        byte *at = bytes_of(made);
        memcpy(at, prefix.at, prefix.size);
        at += prefix.size;
        for (Py_ssize_t i = 0; i < fields; i++)
            at = (byte *)field(at, values[i], of.kinds[i]);
    }
    while (fields-- > 0)
        Py_DECREF(values[fields]);
    return taken ? made : AS_PURE;
}

/* One value, and where it ends in *from; NULL: it is not taken here, or an error is set. */
static PyObject *read_field(const byte **from, const byte *end, char kind)
{
    int64_t value;
    part said;
    const byte *at = *from;
    if (kind == 's' || kind == 'y') {
        *from = get_field(at, end, &said);
        return *from == NULL ? NULL : (kind == 's' ? as_text : as_bytes)(said.at, said.size);
    }
    if (kind == 'b') {
        *from = at + 1;
        return at == end || *at > 1 ? NULL : PyBool_FromLong(*at);
    }
    *from = at = get_varint(at, end, &value);
    if (at == NULL)
        return NULL;
    if (kind != 'L')
        return kind == 'i' && (value > INT32_MAX || value < INT32_MIN) ? NULL : PyLong_FromLongLong(value);
    if (value < 0 || value > end - at)
        return NULL;
    PyObject *items = PyTuple_New((Py_ssize_t)value);
    for (Py_ssize_t i = 0; items != NULL && i < (Py_ssize_t)value; i++) {
        int64_t one;
        PyObject *item = (at = get_varint(at, end, &one)) == NULL ? NULL : PyLong_FromLongLong(one);
        if (item == NULL)
            Py_CLEAR(items);
        else
            PyTuple_SET_ITEM(items, i, item);
    }
    if (items != NULL && value > 0 && (at == end || *at++ != 0))
        Py_CLEAR(items); /* More than one block. */
    *from = at;
    return items;
}

/* (data, at): the record, and where it ends. */
static PyObject *read_whole(PyObject *held, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    layout of = layout_of(held);
    PyObject *pure = of.pure, *values[FIELDS_MAX], *made = NULL;
    Py_ssize_t fields = 0;
    part bytes;
    uint64_t start;
    if (names != NULL || count != 2 || !data(given[0], PY_SSIZE_T_MAX, &bytes) || !number(given[1], bytes.size, &start))
        return AS_PURE;
    const byte *at = bytes.at + start, *end = bytes.at + bytes.size;
    for (; fields < of.fields; fields++)
        if ((values[fields] = read_field(&at, end, of.kinds[fields])) == NULL)
            break;
    int whole = fields == of.fields;
    if (whole)
        made = PyObject_Vectorcall(of.whose, values, 0, of.names);
    while (fields-- > 0)
        Py_DECREF(values[fields]);
    if (!whole)
        return PyErr_Occurred() && is_memory() ? NULL : AS_PURE;
    return made == NULL ? NULL : tuple(2, (PyObject *[]){made, PyLong_FromSsize_t(at - bytes.at)});
}

/* ── this source, as Python sees it ────────────────────────────────────────────────────────────────────────────────── */

#define FAST(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL | METH_KEYWORDS, NULL}
static PyMethodDef functions[] = {
    FAST(encode_frame), FAST(encode_entries), FAST(split_entries), FAST(entry_bytes), FAST(entry_parts),
    FAST(stamped_batch), FAST(stamped_records), {NULL, NULL, 0, NULL}};
static PyMethodDef writing = {"write", (PyCFunction)(void (*)(void))written, METH_FASTCALL | METH_KEYWORDS, NULL};
static PyMethodDef reading = {"read", (PyCFunction)(void (*)(void))read_whole, METH_FASTCALL | METH_KEYWORDS, NULL};

/* The function here of that one's name, with that one for what it does not take. */
static PyObject *made(PyObject *module, PyObject *pure)
{
    (void)module;
    PyObject *name = PyObject_GetAttrString(pure, "__name__"), *found = NULL;
    const char *wanted = name == NULL ? NULL : PyUnicode_AsUTF8(name);
    if (wanted != NULL) {
        PyMethodDef *each = functions;
        while (each->ml_name != NULL && strcmp(each->ml_name, wanted) != 0)
            each++;
        found = each->ml_name != NULL ? PyCFunction_New(each, pure) : PyErr_Format(PyExc_LookupError, "no %s", wanted);
    }
    Py_XDECREF(name);
    return found;
}

static PyObject *of_layout(PyMethodDef *function, PyObject *layout)
{
    PyObject *pure, *whose, *names;
    const char *kinds;
    if (!PyArg_ParseTuple(layout, "OOO!s", &pure, &whose, &PyTuple_Type, &names, &kinds))
        return NULL;
    if (strlen(kinds) != (size_t)PyTuple_GET_SIZE(names) || strlen(kinds) > FIELDS_MAX
        || strspn(kinds, KINDS) != strlen(kinds))
        return PyErr_Format(PyExc_ValueError, "not a layout: %s", kinds);
    return PyCFunction_New(function, layout);
}

/* (pure, prefix, names, kinds): the writer of records of that layout, with pure for what it does not take. */
static PyObject *writer(PyObject *module, PyObject *layout)
{
    (void)module;
    return of_layout(&writing, layout);
}

/* (pure, class, names, kinds): the reader. */
static PyObject *reader(PyObject *module, PyObject *layout)
{
    (void)module;
    return of_layout(&reading, layout);
}

/* Both checksums of some bytes, for who tries a new build; the second is made in both ways. */
static PyObject *checksums(PyObject *module, PyObject *object)
{
    (void)module;
    part found;
    if (!data(object, PY_SSIZE_T_MAX, &found))
        return PyErr_Format(PyExc_TypeError, "bytes are wanted");
    uint32_t by_table = checksum(castagnoli, 0, found.at, found.size), crc = crc32c(found.at, found.size);
    if (by_table != crc)
        return PyErr_Format(PyExc_ArithmeticError, "the processor makes %u of it, the table %u", crc, by_table);
    return Py_BuildValue("II", (unsigned)crc32(0, found.at, found.size), (unsigned)crc);
}

static PyMethodDef methods[] = {
    {"made", made, METH_O, NULL},
    {"writer", writer, METH_VARARGS, NULL},
    {"reader", reader, METH_VARARGS, NULL},
    {"checksums", checksums, METH_O, NULL},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "quorate.leaf._native", NULL, -1, methods,
                                        NULL,                  NULL,                   NULL, NULL};

PyMODINIT_FUNC PyInit__native(void)
{
    fill(ieee, 0xedb88320);
    fill(castagnoli, 0x82f63b78);
    look_at_processor();
    PyObject *module = PyModule_Create(&definition);
    PyObject *source = PyLong_FromUnsignedLong(LEAF_SOURCE);
    if (module != NULL && (source == NULL || PyModule_AddObjectRef(module, "SOURCE", source) < 0)) {
        Py_DECREF(module);
        module = NULL;
    }
    Py_XDECREF(source);
    return module;
}
