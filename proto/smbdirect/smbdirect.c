/* SPDX-License-Identifier: MIT */
#include "proto/smbdirect/smbdirect.h"

#include <errno.h>

#include "proto/smcr/bytes.h"

#define FLAG_RESPONSE_REQUESTED 0x0001
#define ALIGNMENT               8 /* of the payload's offset */

int smbdirect_decode_request(const uint8_t *buf, size_t len, struct smbdirect_request *ret_request)
{
	struct bytes_reader r = bytes_reader(buf, len);
	struct smbdirect_request request;
	request.min_version = read_le16(&r);
	request.max_version = read_le16(&r);
	read_skip(&r, 2);
	request.credits_requested = read_le16(&r);
	request.preferred_send_size = read_le32(&r);
	request.max_receive_size = read_le32(&r);
	request.max_fragmented_size = read_le32(&r);
	if (r.failed)
		return -EBADMSG;
	*ret_request = request;
	return 0;
}

int smbdirect_decode_response(const uint8_t *buf, size_t len,
			      struct smbdirect_response *ret_response)
{
	struct bytes_reader r = bytes_reader(buf, len);
	struct smbdirect_response response;
	response.min_version = read_le16(&r);
	response.max_version = read_le16(&r);
	response.version = read_le16(&r);
	read_skip(&r, 2);
	response.credits_requested = read_le16(&r);
	response.credits_granted = read_le16(&r);
	response.status = read_le32(&r);
	response.max_read_write_size = read_le32(&r);
	response.preferred_send_size = read_le32(&r);
	response.max_receive_size = read_le32(&r);
	response.max_fragmented_size = read_le32(&r);
	if (r.failed)
		return -EBADMSG;
	*ret_response = response;
	return 0;
}

/* Is the payload where one may be? The sum is of 64 bits, and cannot wrap (SMBD-112, SMBD-169). */
static bool payload_fits(const struct smbdirect_data *data, size_t len)
{
	if (data->offset % ALIGNMENT != 0)
		return false; /* also without a payload (SMBD-111) */
	if (data->length > 0 && data->offset < SMBDIRECT_DATA_OFFSET)
		return false; /* SMBD-114 */
	return (uint64_t)data->offset + data->length <= len;
}

int smbdirect_decode_data(const uint8_t *buf, size_t len, struct smbdirect_data *ret_data)
{
	struct bytes_reader r = bytes_reader(buf, len);
	struct smbdirect_data data;
	data.credits_requested = read_le16(&r);
	data.credits_granted = read_le16(&r);
	data.response_requested = read_le16(&r) & FLAG_RESPONSE_REQUESTED;
	read_skip(&r, 2);
	data.remaining = read_le32(&r);
	data.offset = read_le32(&r);
	data.length = read_le32(&r);
	if (r.failed || !payload_fits(&data, len))
		return -EBADMSG;
	*ret_data = data;
	return 0;
}

void smbdirect_decode_descriptor(const uint8_t buf[SMBDIRECT_DESCRIPTOR_LEN],
				 struct smbdirect_descriptor *ret_descriptor)
{
	struct bytes_reader r = bytes_reader(buf, SMBDIRECT_DESCRIPTOR_LEN);
	ret_descriptor->offset = read_le64(&r);
	ret_descriptor->token = read_le32(&r);
	ret_descriptor->length = read_le32(&r);
}

void smbdirect_encode_request(const struct smbdirect_request *request,
			      uint8_t buf[SMBDIRECT_REQUEST_LEN])
{
	struct bytes_writer w = bytes_writer(buf, SMBDIRECT_REQUEST_LEN);
	write_le16(&w, request->min_version);
	write_le16(&w, request->max_version);
	write_zeros(&w, 2);
	write_le16(&w, request->credits_requested);
	write_le32(&w, request->preferred_send_size);
	write_le32(&w, request->max_receive_size);
	write_le32(&w, request->max_fragmented_size);
}

void smbdirect_encode_response(const struct smbdirect_response *response,
			       uint8_t buf[SMBDIRECT_RESPONSE_LEN])
{
	struct bytes_writer w = bytes_writer(buf, SMBDIRECT_RESPONSE_LEN);
	write_le16(&w, response->min_version);
	write_le16(&w, response->max_version);
	write_le16(&w, response->version);
	write_zeros(&w, 2);
	write_le16(&w, response->credits_requested);
	write_le16(&w, response->credits_granted);
	write_le32(&w, response->status);
	write_le32(&w, response->max_read_write_size);
	write_le32(&w, response->preferred_send_size);
	write_le32(&w, response->max_receive_size);
	write_le32(&w, response->max_fragmented_size);
}

size_t smbdirect_encode_data(const struct smbdirect_data *data, uint8_t buf[SMBDIRECT_DATA_OFFSET])
{
	struct bytes_writer w = bytes_writer(buf, SMBDIRECT_DATA_OFFSET);
	write_le16(&w, data->credits_requested);
	write_le16(&w, data->credits_granted);
	write_le16(&w, data->response_requested ? FLAG_RESPONSE_REQUESTED : 0);
	write_zeros(&w, 2);
	write_le32(&w, data->remaining);
	write_le32(&w, data->length ? SMBDIRECT_DATA_OFFSET : 0);
	write_le32(&w, data->length);
	if (data->length == 0)
		return SMBDIRECT_DATA_LEN;
	write_zeros(&w, SMBDIRECT_DATA_OFFSET - SMBDIRECT_DATA_LEN); /* SMBD-82 */
	return SMBDIRECT_DATA_OFFSET;
}

void smbdirect_encode_descriptor(const struct smbdirect_descriptor *descriptor,
				 uint8_t buf[SMBDIRECT_DESCRIPTOR_LEN])
{
	struct bytes_writer w = bytes_writer(buf, SMBDIRECT_DESCRIPTOR_LEN);
	write_le64(&w, descriptor->offset);
	write_le32(&w, descriptor->token);
	write_le32(&w, descriptor->length);
}
