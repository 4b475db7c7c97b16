"""A broker that wants signed requests: the settings, and who may make them."""

from mq_client.acl import Credentials

PROVIDERS = "org.apache.rocketmq.auth.authentication.provider."
SECURED = {
    "authenticationEnabled": "true",
    "authenticationProvider": f"{PROVIDERS}DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{PROVIDERS}LocalAuthenticationMetadataProvider",
    "initAuthenticationUser": '{"username":"keeper","password":"secret-of-keeper"}',
    "innerClientAuthenticationCredentials": (
        '{"accessKey":"keeper","secretKey":"secret-of-keeper"}'
    ),
}
KEEPER = Credentials("keeper", "secret-of-keeper")
