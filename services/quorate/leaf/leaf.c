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

static uint32_t checksum(uint32_t table[8][256], uint32_t start, const byte *at, size_t size)
{
    uint32_t crc = ~start;
    for (; size >= 8; at += 8, size -= 8) {
        uint32_t low = crc ^ (uint32_t)get_little(at, 4), high = (uint32_t)get_little(at + 4, 4);
        crc = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^ table[4][low >> 24]
            ^ table[3][high & 255] ^ table[2][high >> 8 & 255] ^ table[1][high >> 16 & 255] ^ table[0][high >> 24];
    }
    for (; size; at++, size--)
        crc = table[0][(crc ^ *at) & 255] ^ crc >> 8;
    return ~crc;
}

#define crc32(start, at, size) checksum(ieee, start, at, size)
#define crc32c(at, size) checksum(castagnoli, 0, at, size)

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
    if (at == end)
        return found;
refuse:
    Py_DECREF(found);
    return AS_PURE;
}

/* ── this source, as Python sees it ────────────────────────────────────────────────────────────────────────────────── */

#define FAST(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL | METH_KEYWORDS, NULL}
static PyMethodDef functions[] = {FAST(encode_frame), FAST(encode_entries), FAST(split_entries), {NULL, NULL, 0, NULL}};

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

/* Both checksums of some bytes, for who tries a new build. */
static PyObject *checksums(PyObject *module, PyObject *object)
{
    (void)module;
    part found;
    if (!data(object, PY_SSIZE_T_MAX, &found))
        return PyErr_Format(PyExc_TypeError, "bytes are wanted");
    return Py_BuildValue("II", (unsigned)crc32(0, found.at, found.size), (unsigned)crc32c(found.at, found.size));
}

static PyMethodDef methods[] = {
    {"made", made, METH_O, NULL}, {"checksums", checksums, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "quorate.leaf._native", NULL, -1, methods,
                                        NULL,                  NULL,                   NULL, NULL};

PyMODINIT_FUNC PyInit__native(void)
{
    fill(ieee, 0xedb88320);
    fill(castagnoli, 0x82f63b78);
    PyObject *module = PyModule_Create(&definition);
    PyObject *source = PyLong_FromUnsignedLong(LEAF_SOURCE);
    if (module != NULL && (source == NULL || PyModule_AddObjectRef(module, "SOURCE", source) < 0)) {
        Py_DECREF(module);
        module = NULL;
    }
    Py_XDECREF(source);
    return module;
}
